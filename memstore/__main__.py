"""`python -m memstore` is the command line."""

from memstore.cli import main

if __name__ == "__main__":
    main()
