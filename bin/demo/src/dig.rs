//! Asks DNS, with dig's words.
//!
//! Asks only name servers, never the hosts file, so that an answer proves what DNS says.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use hickory_resolver::Resolver;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError, NoRecords};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use tokio::net::lookup_host;

use crate::failure::Failure;

const TYPES: [RecordType; 6] = [
    RecordType::A,
    RecordType::AAAA,
    RecordType::SRV,
    RecordType::TXT,
    RecordType::PTR,
    RecordType::CNAME,
];

/// Flags of `demo dig`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Port of the name server.
    #[arg(short, long, default_value_t = 53)]
    port: u16,
    /// `[@server] NAME [TYPE] [+short] [+search] [+time=SECONDS] [+tries=COUNT]`, in any order.
    #[arg(required = true, num_args = 1.., value_parser = word)]
    words: Vec<Word>,
}

/// One word of dig's command line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Server(String),
    Type(RecordType),
    Name(Name),
    Address(IpAddr),
    Short(bool),
    Search(bool),
    Time(Duration),
    Tries(usize),
}

/// What to ask, whom and how.
#[derive(Debug, PartialEq, Eq)]
struct Query {
    server: Option<String>,
    name: Name,
    kind: RecordType,
    is_short: bool,
    has_search: bool,
    time: Option<Duration>,
    tries: Option<usize>,
}

/// Reads one word; a name that looks like a type is a type, as with dig.
fn word(raw: &str) -> Result<Word, String> {
    if let Some(server) = raw.strip_prefix('@') {
        return Ok(Word::Server(server.to_owned()));
    }
    if let Some(option) = raw.strip_prefix('+') {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let number = || value.parse::<u16>().map_err(|error| format!("{value:?}: {error}"));
        return match key {
            "short" => Ok(Word::Short(true)),
            "noshort" => Ok(Word::Short(false)),
            "search" => Ok(Word::Search(true)),
            "nosearch" => Ok(Word::Search(false)),
            "time" => Ok(Word::Time(Duration::from_secs(number()?.max(1).into()))),
            "tries" => Ok(Word::Tries(number()?.max(1).into())),
            _ => Err("expected +short, +search, +time=SECONDS or +tries=COUNT".to_owned()),
        };
    }
    let upper = raw.to_ascii_uppercase();
    if let Some(kind) = TYPES.into_iter().find(|kind| kind.to_string() == upper) {
        return Ok(Word::Type(kind));
    }
    if let Ok(address) = raw.parse() {
        return Ok(Word::Address(address));
    }
    Name::from_str_relaxed(raw).map(Word::Name).map_err(|error| error.to_string())
}

impl Query {
    fn new(words: Vec<Word>) -> Result<Self, Failure> {
        let (mut server, mut name, mut kind) = (None, None, None);
        let (mut is_short, mut has_search, mut time, mut tries) = (false, false, None, None);
        for word in words {
            match word {
                Word::Server(given) => server = Some(given),
                Word::Type(given) => kind = Some(given),
                Word::Name(given) => name = Some(given),
                Word::Address(given) => {
                    name = Some(Name::from(given));
                    kind = Some(RecordType::PTR);
                }
                Word::Short(given) => is_short = given,
                Word::Search(given) => has_search = given,
                Word::Time(given) => time = Some(given),
                Word::Tries(given) => tries = Some(given),
            }
        }
        let mut name = name.ok_or(Failure::Usage("which NAME?"))?;
        if !has_search {
            name.set_fqdn(true);
        }
        let kind = kind.unwrap_or(RecordType::A);
        Ok(Self { server, name, kind, is_short, has_search, time, tries })
    }
}

/// What `/etc/resolv.conf` says.
type System = Result<(ResolverConfig, ResolverOpts), NetError>;

/// Asks once and writes the records.
pub(crate) async fn run(Args { port, words }: Args, out: &mut impl Write) -> Result<(), Failure> {
    ask(Query::new(words)?, port, read_system_conf(), out).await
}

async fn ask(query: Query, port: u16, system: System, out: &mut impl Write) -> Result<(), Failure> {
    let (config, options) = settings(&query, port, system).await?;
    let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    let resolver = builder.build().map_err(Failure::NoServer)?;
    match resolver.lookup(query.name, query.kind).await {
        Ok(lookup) => print(lookup.answers(), query.is_short, out),
        Err(error) => verdict(error),
    }
}

/// Whom to ask, `@server` or what the system says, and how.
async fn settings(
    query: &Query,
    port: u16,
    system: System,
) -> Result<(ResolverConfig, ResolverOpts), Failure> {
    let (config, mut options) = match (&query.server, system) {
        (None, system) => system.map_err(Failure::NoServer)?,
        (Some(_), Ok(system)) => system,
        (Some(_), Err(_)) => (ResolverConfig::default(), ResolverOpts::default()),
    };
    let (domain, search, mut servers) = config.into_parts();
    if let Some(host) = &query.server {
        let unresolved = |source| Failure::Resolve { host: host.clone(), source };
        let found = lookup_host((host.as_str(), port)).await.map_err(unresolved)?;
        servers = found.map(|at| NameServerConfig::udp_and_tcp(at.ip())).collect();
    }
    for connection in servers.iter_mut().flat_map(|server| &mut server.connections) {
        connection.port = port;
    }
    let (domain, search) = if query.has_search { (domain, search) } else { (None, Vec::new()) };
    options.use_hosts_file = ResolveHosts::Never;
    options.cache_size = 0;
    options.timeout = query.time.unwrap_or(options.timeout);
    // The resolver counts what comes after the first try.
    options.attempts = query.tries.map_or(options.attempts, |tries| tries - 1);
    Ok((ResolverConfig::from_parts(domain, search, servers), options))
}

fn print(records: &[Record], is_short: bool, out: &mut impl Write) -> Result<(), Failure> {
    for record in records {
        let value = value(&record.data);
        if is_short {
            writeln!(out, "{value}")?;
        } else {
            let (name, ttl, kind) = (&record.name, record.ttl, record.record_type());
            writeln!(out, "{name}\t{ttl}\tIN\t{kind}\t{value}")?;
        }
    }
    Ok(out.flush()?)
}

/// The value as dig writes it: the strings of a TXT are quoted.
fn value(data: &RData) -> String {
    if let RData::TXT(text) = data {
        let quoted =
            text.txt_data.iter().map(|part| format!("{:?}", String::from_utf8_lossy(part)));
        return quoted.collect::<Vec<_>>().join(" ");
    }
    data.to_string()
}

/// A name without records of the type is no failure, only an empty answer.
fn verdict(error: NetError) -> Result<(), Failure> {
    let NetError::Dns(
        DnsError::NoRecordsFound(NoRecords { response_code: code, .. })
        | DnsError::ResponseCode(code),
    ) = error
    else {
        return Err(Failure::NoServer(error));
    };
    if code == ResponseCode::NoError { Ok(()) } else { Err(Failure::Answer(code)) }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use hickory_resolver::proto::op::{Message, OpCode};
    use hickory_resolver::proto::rr::rdata::{A, CNAME, SRV, TXT};
    use hickory_resolver::system_conf::parse_resolv_conf;
    use tokio::net::UdpSocket;

    use super::*;

    fn query(line: &str) -> Query {
        Query::new(line.split(' ').map(|raw| word(raw).unwrap()).collect()).unwrap()
    }

    fn name(raw: &str) -> Name {
        Name::from_ascii(raw).unwrap()
    }

    #[test]
    fn words_may_come_in_any_order() {
        let asked = query("+short web.shop.svc.cluster.local srv @10.0.0.10 +time=2 +tries=1");
        assert_eq!(
            asked,
            Query {
                server: Some("10.0.0.10".to_owned()),
                name: name("web.shop.svc.cluster.local."),
                kind: RecordType::SRV,
                is_short: true,
                has_search: false,
                time: Some(Duration::from_secs(2)),
                tries: Some(1),
            }
        );
    }

    #[test]
    fn a_name_stays_relative_only_when_searching() {
        assert!(query("web").name.is_fqdn());
        assert!(!query("web +search").name.is_fqdn());
        assert_eq!(query("web").kind, RecordType::A);
    }

    #[test]
    fn an_address_is_asked_for_in_reverse() {
        let asked = query("10.1.2.3");
        assert_eq!((asked.name, asked.kind), (name("3.2.1.10.in-addr.arpa."), RecordType::PTR));
    }

    #[test]
    fn a_question_without_a_name_is_refused() {
        assert_eq!(Query::new(vec![Word::Short(true)]).unwrap_err().code(), 2);
    }

    #[tokio::test]
    async fn records_are_lines_of_five_fields_or_bare_values() {
        let server = Server::start().await;
        assert_eq!(
            server.dig("web.test").await,
            ("web.test.\t30\tIN\tA\t10.0.0.1\n".to_owned(), None)
        );
        assert_eq!(server.dig("web.test +short").await, ("10.0.0.1\n".to_owned(), None));
        assert_eq!(
            server.dig("_http._tcp.test SRV +short").await,
            ("0 100 8080 web.test.\n".to_owned(), None)
        );
        assert_eq!(server.dig("text.test TXT +short").await, ("\"a b\" \"c\"\n".to_owned(), None));
    }

    #[tokio::test]
    async fn an_alias_is_shown_with_what_it_stands_for() {
        let server = Server::start().await;
        assert_eq!(
            server.dig("alias.test +short").await,
            ("web.test.\n10.0.0.1\n".to_owned(), None)
        );
    }

    #[tokio::test]
    async fn no_such_name_is_1_and_no_such_type_is_an_empty_answer() {
        let server = Server::start().await;
        assert_eq!(server.dig("nothing.test").await, (String::new(), Some(1)));
        assert_eq!(server.dig("web.test TXT").await, (String::new(), None));
    }

    #[tokio::test]
    async fn the_search_list_is_used_only_when_asked_for() {
        let server = Server::start().await;
        let conf = "nameserver 127.0.0.1\nsearch nowhere.test test\noptions ndots:5\n";
        for (line, expected) in [("web +short +search", Some("10.0.0.1\n")), ("web", None)] {
            let mut out = Vec::new();
            let found = ask(query(line), server.port, parse_resolv_conf(conf), &mut out).await;
            assert_eq!(found.ok().map(|()| String::from_utf8(out).unwrap()).as_deref(), expected);
        }
    }

    #[tokio::test]
    async fn a_silent_server_is_9() {
        let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = silent.local_addr().unwrap().port();
        assert_eq!(dig(port, "web.test +time=1 +tries=1").await, (String::new(), Some(9)));
    }

    async fn dig(port: u16, line: &str) -> (String, Option<u8>) {
        let mut words: Vec<_> = line.split(' ').map(|raw| word(raw).unwrap()).collect();
        words.push(Word::Server(Ipv4Addr::LOCALHOST.to_string()));
        let mut out = Vec::new();
        let code = run(Args { port, words }, &mut out).await.err().map(|failure| failure.code());
        (String::from_utf8(out).unwrap(), code)
    }

    /// A name server on loopback that knows four names.
    struct Server {
        port: u16,
        task: tokio::task::JoinHandle<()>,
    }

    impl Server {
        async fn start() -> Self {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let port = socket.local_addr().unwrap().port();
            let task = tokio::spawn(async move {
                let mut buffer = [0; 1500];
                loop {
                    let (size, from) = socket.recv_from(&mut buffer).await.unwrap();
                    let reply = reply(&Message::from_vec(&buffer[..size]).unwrap());
                    socket.send_to(&reply.to_vec().unwrap(), from).await.unwrap();
                }
            });
            Self { port, task }
        }

        async fn dig(&self, line: &str) -> (String, Option<u8>) {
            dig(self.port, line).await
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            self.task.abort();
        }
    }

    fn reply(request: &Message) -> Message {
        let asked = &request.queries[0];
        let (owner, kind) = (asked.name().to_ascii(), asked.query_type());
        let address = RData::A(A(Ipv4Addr::new(10, 0, 0, 1)));
        let known = match owner.as_str() {
            "web.test." => vec![("web.test.", address)],
            "alias.test." => vec![
                ("alias.test.", RData::CNAME(CNAME(name("web.test.")))),
                ("web.test.", address),
            ],
            "_http._tcp.test." => {
                vec![("_http._tcp.test.", RData::SRV(SRV::new(0, 100, 8080, name("web.test."))))]
            }
            "text.test." => {
                let text = TXT::new(vec!["a b".to_owned(), "c".to_owned()]);
                vec![("text.test.", RData::TXT(text))]
            }
            _ => vec![],
        };
        let mut reply = Message::response(request.metadata.id, OpCode::Query);
        reply.metadata.recursion_available = true;
        reply.metadata.response_code =
            if known.is_empty() { ResponseCode::NXDomain } else { ResponseCode::NoError };
        reply.add_query(asked.clone());
        let wanted = known.into_iter().filter(|(_, data)| {
            [kind, RecordType::CNAME].contains(&data.record_type()) || owner == "alias.test."
        });
        reply.add_answers(wanted.map(|(at, data)| Record::from_rdata(name(at), 30, data)));
        reply
    }
}
