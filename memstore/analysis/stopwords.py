"""Function words of the languages that a store knows by itself.

They travel with the package, so that nothing ever asks for `nltk_data`. Each list holds words that carry
grammar and no subject: articles, prepositions, pronouns, conjunctions, question words, auxiliaries. Spelling is
lower case with its accents; the analyser compares folded forms, so the spelling without accents is covered.
"""

_PORTUGUESE = """
a à ao aos as às o os um uma uns umas de do da dos das em no na nos nas num numa nuns numas por pelo pela pelos
pelas para pra pro com sem sob sobre entre até desde após ante contra perante
e ou mas nem que se como porque pois porém contudo todavia portanto embora enquanto quando onde aonde quanto quanta
quantos quantas qual quais quem cujo cuja cujos cujas
eu tu ele ela nós vós eles elas você vocês me te lhe lhes mim ti si comigo contigo consigo conosco
meu minha meus minhas teu tua teus tuas seu sua seus suas nosso nossa nossos nossas dele dela deles delas
este esta estes estas esse essa esses essas aquele aquela aqueles aquelas isto isso aquilo
deste desta destes destas desse dessa desses dessas daquele daquela daqueles daquelas disto disso daquilo
neste nesta nestes nestas nesse nessa nesses nessas naquele naquela naqueles naquelas nisto nisso naquilo àquele àquela
não sim já ainda também só apenas muito muita muitos muitas mais menos tão tanto tanta tantos tantas
todo toda todos todas outro outra outros outras mesmo mesma mesmos mesmas algum alguma alguns algumas
nenhum nenhuma cada lá aqui ali aí então depois
ser é és sou somos são era eras eram éramos fui foi fomos foram fosse fossem seja sejam será serão seria seriam sendo sido
estar está estou estamos estão estava estavam estive esteve estiveram esteja estejam estando
ter tem têm tenho temos tinha tinham tive teve tiveram tenha tenham terá terão teria tendo tido
haver há havia houve haja hei
ir vai vou vamos vão
foi pode podem deve devem
"""

_SPANISH = """
a al el la los las lo un una unos unas de del en por para con sin sobre entre hasta desde tras ante bajo contra según
durante mediante
y e o u pero mas sino ni que si como cómo porque pues aunque mientras cuando cuándo donde dónde adónde cuanto cuánto cuanta
cuánta cuantos cuántos cuantas cuántas cual cuál cuales cuáles quien quién quienes quiénes cuyo cuya cuyos cuyas qué
yo tú él ella ello nosotros nosotras vosotros vosotras ellos ellas usted ustedes me te se le les nos os mí ti sí
conmigo contigo consigo
mi mis tu tus su sus mío mía míos mías tuyo tuya tuyos tuyas suyo suya suyos suyas nuestro nuestra nuestros nuestras
vuestro vuestra vuestros vuestras
este esta estos estas esto ese esa esos esas eso aquel aquella aquellos aquellas aquello éste ésta éstos éstas ése ésa ésos
ésas
no ya aún todavía también solo sólo muy mucho mucha muchos muchas más menos tan tanto tanta tantos tantas
todo toda todos todas otro otra otros otras mismo misma mismos mismas algún alguno alguna algunos algunas
ningún ninguno ninguna cada allí aquí ahí entonces después
ser es soy eres somos son era eras eran éramos fui fue fuimos fueron fuera fuese sea sean será serán sería serían siendo sido
estar está estoy estás estamos están estaba estaban estuve estuvo estuvieron esté estén estando
tener tiene tienen tengo tienes tenemos tenía tenían tuve tuvo tuvieron tenga tengan tendrá teniendo tenido
haber ha han he has hemos hay había habían hubo haya hayan habrá habría habido
ir va voy vamos van
puede pueden debe deben
"""

_ENGLISH = """
a an the of in on at by for with without about against between into through during before after above below to from up down
out off over under again further then once per via upon within toward towards
and or but nor so yet if because as until while than that which who whom whose what when where why how whether though
although
i you he she it we they me him her us them my your his its our their mine yours hers ours theirs myself yourself himself
herself itself ourselves yourselves themselves
this these those there here
not no yes too very just only also both each few more most other some such any all own same many much another
am is are was were be been being have has had having do does did doing done
can could will would shall should may might must ought
isn't aren't wasn't weren't hasn't haven't hadn't doesn't don't didn't won't wouldn't can't couldn't shouldn't
i'm you're he's she's it's we're they're i've you've we've they've i'll you'll he'll she'll we'll they'll i'd you'd he'd
she'd we'd they'd that's there's here's what's who's where's when's how's let's
s t d ll m re ve don isn aren wasn weren hasn haven hadn doesn didn won wouldn couldn shouldn
"""

STOP_WORDS: dict[str, frozenset[str]] = {
    "pt": frozenset(_PORTUGUESE.split()),
    "es": frozenset(_SPANISH.split()),
    "en": frozenset(_ENGLISH.split()),
}
