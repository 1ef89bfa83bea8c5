"""What the demo stores and asks: a small team's notes in three languages, and one question of each kind."""

from memstore.records import NewMemory

NOTES = (
    NewMemory(
        text="O erro ERR-4018 aparece quando o cartão do cliente está vencido; peça outro cartão.",
        key="err-4018",
        author="Ana",
        tags=["pagamentos"],
    ),
    NewMemory(
        text="ERR-4019 is a wrong security code; the customer may try three times.",
        key="err-4019",
        author="Tom",
        tags=["payments"],
    ),
    NewMemory(
        text="O estorno cai na fatura do cliente em até sete dias úteis depois do pedido.",
        key="refund-days",
        author="Ana",
        tags=["pagamentos"],
    ),
    NewMemory(
        text="Decidimos com Maria da Silva usar Stripe; o PagBank fica de reserva.",
        key="stripe",
        author="Bruno",
        created_at="2025-03-12T10:00-03:00",
        tags=["decisão"],
    ),
    NewMemory(
        text="The TLS certificate of the staging server runs out on 14 March; Tom renews it.",
        key="tls-staging",
        author="Tom",
        created_at="2025-02-20T09:30+00:00",
    ),
    NewMemory(
        text="La reunión semanal con el equipo de Córdoba pasa de los lunes a los miércoles a las diez.",
        key="cordoba-meeting",
        author="Lucía",
        created_at="2025-04-02T16:00+02:00",
    ),
    NewMemory(
        text="El pedido 8831 llegó roto; Lucía mandó otro por Transportadora Rapidão Tupã.",
        key="order-8831",
        author="Lucía",
        tags=["envíos"],
    ),
    NewMemory(
        text="A senha do wifi da visita muda toda sexta; está no quadro da cozinha.", key="guest-wifi", author="Bruno"
    ),
    NewMemory(text="Nunca rode rm -rf na pasta de produção; use scripts/limpar.sh.", key="rm-rf", author="Bruno"),
    NewMemory(
        text="Our office closes at six; after that the door opens with the blue badge only.",
        key="office-hours",
        author="Tom",
    ),
    NewMemory(
        text="O plano básico custa R$ 18,90 por mês e o plano equipe R$ 59,90.",
        key="prices",
        author="Ana",
        tags=["preços"],
    ),
    NewMemory(
        text="Use read_csv_safe() instead of read_csv: it refuses files that are cut off.", key="read-csv", author="Tom"
    ),
    # Payments and prices, with neighbours that differ in the code or the amount alone.
    NewMemory(
        text="O erro ERR-4020 quer dizer saldo insuficiente; sugira outro meio de pagamento.",
        key="err-4020",
        author="Ana",
        tags=["pagamentos"],
    ),
    NewMemory(
        text="ERR-4021 comes up when the bank declines without a reason; ask the customer to call the bank.",
        key="err-4021",
        author="Tom",
        tags=["payments"],
    ),
    NewMemory(
        text="El error ERR-5107 aparece si el webhook de Stripe llega dos veces; el segundo se ignora.",
        key="err-5107",
        author="Diego",
    ),
    NewMemory(
        text="El error ERR-5108 es el webhook de Stripe con firma inválida; revisar la clave en el panel.",
        key="err-5108",
        author="Diego",
    ),
    NewMemory(
        text="Pix acima de R$ 5.000,00 passa por revisão manual; a Inês libera até as 17h.",
        key="pix-limit",
        author="Inês",
        tags=["pagamentos"],
    ),
    NewMemory(
        text="Entre 20h e 6h o limite do Pix cai para R$ 1.000,00.", key="pix-night", author="Inês", tags=["pagamentos"]
    ),
    NewMemory(
        text="A nota fiscal NF-2291 saiu com CNPJ errado; Inês cancelou e emitiu a NF-2292.",
        key="invoice-2291",
        author="Inês",
    ),
    NewMemory(
        text="NF-2305: a prefeitura recusou por código de serviço; usar 01.07 em vez de 01.05.",
        key="invoice-2305",
        author="Inês",
    ),
    NewMemory(
        text="Keep the delivery photo for 120 days: without it we lose every chargeback.",
        key="chargeback",
        author="Grace",
    ),
    NewMemory(
        text="Até dezembro o plano Pro custava R$ 129,00; quem já era cliente fica nesse valor.",
        key="price-pro-old",
        author="Ana",
        tags=["preços"],
    ),
    NewMemory(
        text="Em janeiro o plano Pro passou para R$ 139,00 por mês.", key="price-pro", author="Ana", tags=["preços"]
    ),
    NewMemory(
        text="O plano anual Pro sai por R$ 1.390,00, dois meses de graça.",
        key="price-annual",
        author="Ana",
        tags=["preços"],
    ),
    NewMemory(
        text="Coupon VERANO-10 takes 10 % off the first month, only in Argentina and Uruguay.",
        key="coupon-10",
        author="Tom",
        tags=["prices"],
    ),
    NewMemory(
        text="El cupón VERANO-15 da 15 % de descuento y caduca el 28 de febrero.",
        key="coupon-15",
        author="Diego",
        tags=["precios"],
    ),
    # Orders and shipments.
    NewMemory(
        text="El pedido 8832 salió el martes con la transportista Andina; falta la firma del cliente.",
        key="order-8832",
        author="Lucía",
        tags=["envíos"],
    ),
    NewMemory(
        text="Order 8840 was sent to the old address in Porto; Lucía is waiting for it to come back.",
        key="order-8840",
        author="Tom",
    ),
    NewMemory(text="O pedido 9104 foi pago duas vezes; Ana devolveu R$ 76,40.", key="order-9104", author="Ana"),
    NewMemory(
        text="O pedido 9140 está parado na alfândega de Viracopos desde segunda.", key="order-9140", author="Bruno"
    ),
    NewMemory(
        text="La guía AR-77120-X es el envío de las sillas nuevas.", key="ar-77120", author="Lucía", tags=["envíos"]
    ),
    NewMemory(
        text="La guía AR-77121-X es el envío de las mesas; llega en dos entregas.",
        key="ar-77121",
        author="Lucía",
        tags=["envíos"],
    ),
    # Deployments.
    NewMemory(
        text="Version 2.14.0 moves the queue to Redis; roll back to 2.13.6 if workers stall.",
        key="v2-14-0",
        author="Tom",
        created_at="2025-05-06T11:00+00:00",
    ),
    NewMemory(
        text="Version 2.14.1 only fixes the time zone of the daily report.",
        key="v2-14-1",
        author="Tom",
        created_at="2025-05-13T11:00+00:00",
    ),
    NewMemory(
        text="A versão 2.15.0 pede Python 3.12; as máquinas antigas ainda têm 3.10.", key="v2-15-0", author="Bruno"
    ),
    NewMemory(
        text="The upload limit is set in /etc/nginx/conf.d/upload.conf; we raised it to 40 MB.",
        key="nginx-upload",
        author="Tom",
    ),
    NewMemory(
        text="Timeouts of the proxy live in /etc/nginx/conf.d/proxy.conf; 60 s is enough.",
        key="nginx-proxy",
        author="Tom",
    ),
    NewMemory(
        text="O deploy sai com scripts/deploy.sh --canary; espere dez minutos antes de ir a 100 %.",
        key="deploy",
        author="Bruno",
    ),
    NewMemory(text="Para voltar atrás use scripts/rollback.sh e avise no canal antes.", key="rollback", author="Bruno"),
    NewMemory(
        text="El archivo db/migrations/0042_invoices.sql tarda veinte minutos; correrlo de noche.",
        key="migration-42",
        author="Diego",
    ),
    NewMemory(
        text="db/migrations/0043_customers.sql is safe in working hours; it only adds a column.",
        key="migration-43",
        author="Grace",
    ),
    NewMemory(
        text="Production reads from db-read-03.internal; db-read-02.internal is for reports alone.",
        key="db-hosts",
        author="Tom",
    ),
    NewMemory(
        text="As cópias de segurança ficam 35 dias no balde da Irlanda e são testadas todo primeiro sábado.",
        key="backups",
        author="Bruno",
    ),
    NewMemory(
        text="The outage of 9 May came from a full disk on the log server; alerts now fire at 80 %.",
        key="outage",
        author="Tom",
        created_at="2025-05-12T08:00+00:00",
    ),
    NewMemory(text="Whoever is on duty at the weekend gets the following Monday off.", key="on-duty", author="Grace"),
    NewMemory(
        text="La bandera checkout_v3 está activa solo para el 5 % de los clientes.", key="flag-v3", author="Diego"
    ),
    NewMemory(text="checkout_v2 goes away in June; do not build on it.", key="flag-v2", author="Grace"),
    NewMemory(
        text="O acesso à produção é só pela máquina de salto, com chave física.",
        key="production-access",
        author="Bruno",
    ),
    # Support.
    NewMemory(
        text="Ticket SUP-5530: the export hangs when a name has an apostrophe; fixed in the next release.",
        key="ticket-5530",
        author="Grace",
        tags=["support"],
    ),
    NewMemory(
        text="Ticket SUP-5531: la exportación sale vacía con Safari; pedir Firefox mientras tanto.",
        key="ticket-5531",
        author="Diego",
        tags=["soporte"],
    ),
    NewMemory(
        text="Clientes que perdem a senha três vezes ficam bloqueados por uma hora; o suporte pode liberar antes.",
        key="locked-out",
        author="Ana",
        tags=["suporte"],
    ),
    NewMemory(
        text="Con un cliente furioso primero se escucha, después se ofrece algo; nunca al revés.",
        key="angry-customer",
        author="Lucía",
        tags=["soporte"],
    ),
    NewMemory(
        text="First reply within four hours on working days, the next morning otherwise.",
        key="first-reply",
        author="Grace",
        tags=["support"],
    ),
    NewMemory(text="Old imports broke accents: ask for the file again as UTF-8.", key="broken-accents", author="Tom"),
    NewMemory(
        text="Quem pede para apagar os dados recebe confirmação por escrito em quinze dias.",
        key="data-deletion",
        author="Inês",
    ),
    # The office.
    NewMemory(
        text="A máquina de café quebrada vai para a assistência; até lá, usem a do segundo andar.",
        key="coffee",
        author="Bruno",
    ),
    NewMemory(text="Las plazas 14 y 15 del garaje son para visitas; avisar al portero.", key="parking", author="Lucía"),
    NewMemory(text="The spare key of the server room is with Grace, in the red box.", key="server-room", author="Tom"),
    NewMemory(text="O bolo dos aniversários do mês é sempre na última quinta, às 16h.", key="birthdays", author="Ana"),
    NewMemory(text="Dogs are welcome on Fridays if they sleep under the desk.", key="dogs", author="Grace"),
    NewMemory(
        text="Las vacaciones se piden con un mes de antelación en la planilla de Inês.", key="holidays", author="Lucía"
    ),
    NewMemory(
        text="O ar-condicionado da sala grande pinga; não ponham computador embaixo.",
        key="air-conditioner",
        author="Bruno",
    ),
    NewMemory(text="Diego waters the plants on Tuesdays; please do not help.", key="plants", author="Tom"),
    # Travel.
    NewMemory(
        text="Para Lisboa voamos de TAP, voo TP-0082, saída 23h05; o hotel fica perto do Rossio.",
        key="lisbon",
        author="Inês",
        tags=["viagens"],
    ),
    NewMemory(text="A volta de Lisboa é no TP-0083, às 12h40.", key="lisbon-back", author="Inês", tags=["viagens"]),
    NewMemory(
        text="En Madrid dormimos en casa de la prima de Lucía; nada de hoteles.",
        key="madrid",
        author="Lucía",
        tags=["viajes"],
    ),
    NewMemory(
        text="Meals on the road are paid back up to 45 euros a day, with receipts.",
        key="meals",
        author="Grace",
        tags=["travel"],
    ),
    NewMemory(
        text="El tren a Rosario tarda seis horas y no tiene enchufes; llevar batería.",
        key="rosario",
        author="Diego",
        tags=["viajes"],
    ),
    # Decisions.
    NewMemory(
        text="We dropped MongoDB in 2023: nobody missed it, and Postgres does the search.",
        key="mongodb",
        author="Tom",
        tags=["decision"],
    ),
    NewMemory(text="Nada de publicar às sextas depois do almoço.", key="friday", author="Bruno", tags=["decisão"]),
    NewMemory(
        text="Decidimos contratar a Paula Menezes para o suporte; começa em agosto.",
        key="paula",
        author="Ana",
        created_at="2025-06-18T15:00-03:00",
        tags=["decisão"],
    ),
    NewMemory(
        text="El nuevo logo lo dibuja el estudio de Marta Quiroga; entrega en tres semanas.",
        key="logo",
        author="Lucía",
        tags=["decisión"],
    ),
    NewMemory(
        text="Customers see the name Ledgerly; internally we still say Projeto Tatu.",
        key="product-name",
        author="Grace",
        tags=["decision"],
    ),
    NewMemory(
        text="O SMS passou da Zenvia para a Twilio: a entrega é melhor fora do Brasil.",
        key="sms",
        author="Bruno",
        tags=["decisão"],
    ),
)

QUESTIONS = (
    ("a code", "o que significa o erro ERR-4018?"),
    ("a price", "qual plano custa 18,90?"),
    ("a paraphrase: no word in common", "direito ao esquecimento: qual o prazo?"),
    ("a name", "what did we decide with Maria da Silva?"),
    ("asked in English, written in Spanish", "lodging in the Spanish capital"),
    ("asked in English, about a place in Spanish", "when does the team in Córdoba meet?"),
    ("Python's language reference", "how do I leave a loop early?"),
)
