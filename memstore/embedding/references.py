"""Plain sentences about anything: what a query is near to when it is near to nothing."""

# A store of a few memories can't tell by itself which cosine is high for its model. Notes of a length that is usual,
# in the languages of the analysis, each of another subject; their vectors are kept with each space, so that a change
# here holds for new spaces alone. Those of one language stand together, as many of each.
_BY_LANGUAGE = (
    (
        "Comprei pão, leite e café no mercado da esquina.",
        "A consulta com a dentista foi marcada para quinta de manhã.",
        "O relatório do trimestre precisa de mais dois gráficos.",
        "Meu avô plantava mandioca e criava galinhas no sítio.",
        "O ônibus atrasou vinte minutos por causa da chuva forte.",
        "Reinicie o servidor depois de trocar a senha do banco de dados.",
        "A banda tocou músicas antigas até depois da meia-noite.",
        "O contrato de aluguel vence no fim do ano que vem.",
    ),
    (
        "El vuelo a Lima sale a las seis y hay que llegar temprano.",
        "La receta lleva arroz, azafrán, mejillones y caldo de pescado.",
        "El equipo perdió la final en los últimos minutos del partido.",
        "Mi hermana estudia derecho y trabaja los fines de semana.",
        "Hay que pintar la pared del patio antes del verano.",
        "El médico recomienda caminar media hora cada día.",
        "La reunión de vecinos decidió cambiar la puerta del garaje.",
        "Las ventas de la tienda bajaron un poco en noviembre.",
    ),
    (
        "The new keyboard arrived with two of its keys loose.",
        "She planted tomatoes and basil along the garden fence.",
        "Our train was cancelled, so we rented a car instead.",
        "The function returns an empty list when the file is missing.",
        "He is reading a long novel about sailors in the Arctic.",
        "Interest rates went up again and the loan costs more now.",
        "The museum opens at ten and is closed on Mondays.",
        "Please send the signed form back by the end of the week.",
    ),
)
REFERENCES = tuple(sentence for sentences in _BY_LANGUAGE for sentence in sentences)
REFERENCES_EACH = len(_BY_LANGUAGE[0])
