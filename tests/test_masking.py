"""Secrets that have a shape are masked when that is asked for, and only then (case B94)."""

import subprocess
import sys

import pytest

from memstore import InvalidInputError, NewMemory, SecretWarning
from memstore.masking import masked

# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "AWS key": "AKIA" + "Q3EGRIX7WVKT2BNU",
    "GitHub token": "ghp_" + "a1B2" * 9,
    "GitLab token": "glpat-" + "a1B2c3D4e5F6g7H8i9J0",
    "Slack token": "xoxb-" + "123456789012-abcdefABCDEF",
    "Google key": "AIza" + "Sy4" * 11 + "a_",
    "Stripe key": "sk_live_" + "a1B2c3D4e5F6g7H8",
    "model key": "sk-ant-" + "a1B2c3D4e5F6g7H8i9J0k1",
    "JSON web token": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "SflKxwRJSMeKKF2QT4fw",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----",
}
HARMLESS = [
    "The documentation's key is AKIAIOSFODNN7EXAMPLE.",
    "The password is in the safe; passwords, tokens and api keys rotate in May.",
    "password: see the vault, secret santa is on Friday",
    "task-force and risk-assessment-of-the-third-quarter, disk-a1",
    "commit 9d8021fa4ee962bf0c1d2e3f4a5b6c7d8e9f0a1b of ERR-4018",
    "https://example.org/a?b=c#d e ana@example.org, 2c9fbd1e-7b1a-4f0e-9a51-1f7d0a4c2b11",
]


@pytest.mark.parametrize("kind", SECRETS)
def test_what_has_the_shape_of_a_secret_is_masked(kind):
    """A key or token anywhere in a text gives way to its kind; what stands around it stays."""
    assert masked(f"deploy with {SECRETS[kind]} tomorrow") == f"deploy with [masked: {kind}] tomorrow"
    assert masked(SECRETS[kind]) == f"[masked: {kind}]"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_speaks_of_secrets_stays(text):
    """The word password, a key of documentation, hashes, links and hyphenated words are no secrets."""
    assert masked(text) == text


def test_no_text_is_changed_unasked(words):
    """Without being asked the store keeps a key as it was given, and finds it."""
    text = f"the key is {SECRETS['AWS key']}"
    with pytest.warns(SecretWarning):
        assert words.add(text).text == text
    assert words.search(SECRETS["AWS key"])[0].memory.text == text


def test_masking_is_before_anything_is_stored(words, path):
    """A masked secret is nowhere in the file, nor in the files beside it, and the memory is found by the rest."""
    secret = SECRETS["GitHub token"]
    memory = words.add(f"deploy with {secret} tomorrow", mask_secrets=True)
    many = words.add_many([NewMemory(text=f"again {secret}"), NewMemory(text="none here")], mask_secrets=True)
    assert memory.text == "deploy with [masked: GitHub token] tomorrow"
    assert [one.text for one in many] == ["again [masked: GitHub token]", "none here"]
    assert words.search("deploy tomorrow")[0].memory.id == memory.id
    words.close()
    for file in path.parent.iterdir():
        assert secret.encode() not in file.read_bytes()
        assert secret.lower().encode() not in file.read_bytes()


def test_a_wish_that_is_no_wish_is_refused(words):
    """mask_secrets is true or false; with anything else nothing is stored."""
    with pytest.raises(InvalidInputError, match="mask_secrets is 'yes'; give true or false"):
        words.add("x", mask_secrets="yes")
    assert words.count() == 0


def test_on_the_command_line(tmp_path):
    """add --mask-secrets stores the masked text, add alone the text as it is."""
    said = []
    for options in ([], ["--mask-secrets"]):
        command = [sys.executable, "-m", "memstore", "add", f"use {SECRETS['Stripe key']}", "--db", "a.db", "--json"]
        done = subprocess.run(
            [*command, "--embedder", "none", *options], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        said.append(done.stdout)
    assert SECRETS["Stripe key"] in said[0]
    assert SECRETS["Stripe key"] not in said[1]
    assert "use [masked: Stripe key]" in said[1]
