//! Fetches an `http://` URL, with curl's flags and exit codes.
//!
//! Only what scripts in pods use; TLS is left out, since it would triple the binary.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};

use crate::failure::Failure;
use crate::wait_for::seconds;

/// Flags of `demo curl`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are curl's switches")]
pub(crate) struct Args {
    /// Keeps quiet about errors.
    #[arg(short, long)]
    silent: bool,
    /// Tells errors even when silent.
    #[arg(short = 'S', long)]
    show_error: bool,
    /// Fails without a body when the server answers with an error.
    #[arg(short, long)]
    fail: bool,
    /// Seconds that the whole transfer may take.
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    max_time: Option<Duration>,
    /// File that takes the body instead of the standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Text to print at the end; knows `%{http_code}`, `%{size_download}` and `%{time_total}`.
    #[arg(short, long, value_name = "FORMAT")]
    write_out: Option<String>,
    /// Method of the request; GET, or POST with data.
    #[arg(short = 'X', long = "request", value_name = "METHOD")]
    method: Option<Method>,
    /// Body of the request.
    #[arg(short, long, value_name = "BODY")]
    data: Option<String>,
    /// Header of the request, as `Name: value`; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    headers: Vec<Header>,
    /// Accepted for scripts that also fetch https.
    #[arg(short = 'k', long)]
    insecure: bool,
    /// What to fetch.
    url: Url,
}

impl Args {
    /// Whether a failure shows in the exit code only.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent && !self.show_error
    }
}

/// The parts of an `http://` URL that a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Url {
    authority: String,
    host: String,
    port: u16,
    path: String,
}

impl FromStr for Url {
    type Err = String;

    fn from_str(raw: &str) -> Result<Self, Self::Err> {
        let whole = if raw.contains("://") { raw.to_owned() } else { format!("http://{raw}") };
        let uri: Uri = whole.parse().map_err(|error| format!("{error}"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err("this curl has no TLS; use http://".to_owned()),
            Some(_) | None => return Err("only http:// is supported".to_owned()),
        }
        let authority = uri.authority().ok_or("the host is missing")?;
        let host = authority.host();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() {
            return Err("the host is missing".to_owned());
        }
        Ok(Self {
            authority: authority.to_string(),
            host: bare.to_owned(),
            port: authority.port_u16().unwrap_or(80),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }
}

/// A header of the request.
#[derive(Debug, Clone)]
struct Header(HeaderName, HeaderValue);

impl FromStr for Header {
    type Err = String;

    fn from_str(raw: &str) -> Result<Self, Self::Err> {
        let (name, value) = raw.split_once(':').ok_or("expected `Name: value`")?;
        let name = name.trim().parse().map_err(|error| format!("{error}"))?;
        let value = value.trim().parse().map_err(|error| format!("{error}"))?;
        Ok(Self(name, value))
    }
}

/// What is known of a transfer, however far it came.
#[derive(Debug, Default)]
struct Progress {
    status: Option<StatusCode>,
    size: u64,
}

/// Fetches and writes the body to `out`, unless it goes to a file.
pub(crate) async fn run(args: Args, out: &mut impl Write) -> Result<(), Failure> {
    let started = Instant::now();
    let mut progress = Progress::default();
    let limit = args.max_time.unwrap_or(Duration::MAX);
    let result = timeout(limit, transfer(&args, &mut progress, out))
        .await
        .unwrap_or(Err(Failure::TimedOut(limit)));
    if let Some(format) = &args.write_out {
        out.write_all(render(format, &progress, started.elapsed()).as_bytes())?;
    }
    out.flush()?;
    result
}

async fn transfer(
    args: &Args,
    progress: &mut Progress,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let response = send(args).await?;
    progress.status = Some(response.status());
    if args.fail && (response.status().is_client_error() || response.status().is_server_error()) {
        return Err(Failure::Status(response.status()));
    }
    let mut body = response.into_body();
    match &args.output {
        Some(path) => save(&mut body, progress, &mut File::create(path)?).await,
        None => save(&mut body, progress, out).await,
    }
}

async fn send(args: &Args) -> Result<Response<Incoming>, Failure> {
    let request = request(args);
    let stream = connect(&args.url).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(Failure::Transfer)?;
    // The connection's failure also reaches the response or its body.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(Failure::Transfer)
}

fn request(args: &Args) -> Request<Full<Bytes>> {
    let default = if args.data.is_some() { Method::POST } else { Method::GET };
    let body = args.data.clone().unwrap_or_default();
    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = args.method.clone().unwrap_or(default);
    *request.uri_mut() = args.url.path.parse().unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, HeaderValue::from_static("demo"));
    if let Ok(host) = HeaderValue::from_str(&args.url.authority) {
        headers.insert(HOST, host);
    }
    if args.data.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    }
    for Header(name, value) in &args.headers {
        headers.insert(name, value.clone());
    }
    request
}

/// Connects to the first address that accepts.
async fn connect(url: &Url) -> Result<TcpStream, Failure> {
    let started = Instant::now();
    let unresolved = |source| Failure::Resolve { host: url.host.clone(), source };
    let addresses = lookup_host((url.host.as_str(), url.port)).await.map_err(unresolved)?;
    let mut last = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(Failure::connect(&address, error, started.elapsed())),
        }
    }
    Err(last.unwrap_or_else(|| unresolved(io::ErrorKind::NotFound.into())))
}

async fn save(
    body: &mut Incoming,
    progress: &mut Progress,
    out: &mut impl Write,
) -> Result<(), Failure> {
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame.map_err(Failure::Transfer)?.into_data() {
            out.write_all(&bytes)?;
            progress.size += u64::try_from(bytes.len()).map_err(io::Error::other)?;
        }
    }
    Ok(out.flush()?)
}

/// Fills in the text of `-w`; a status that never came is 000, as with curl.
fn render(format: &str, progress: &Progress, elapsed: Duration) -> String {
    let status = progress.status.map_or(0, |status| status.as_u16());
    format
        .replace("%{http_code}", &format!("{status:03}"))
        .replace("%{response_code}", &format!("{status:03}"))
        .replace("%{size_download}", &progress.size.to_string())
        .replace("%{time_total}", &format!("{:.6}", elapsed.as_secs_f64()))
        .replace("\\n", "\n")
        .replace("\\t", "\t")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use clap::Parser;
    use tokio::net::TcpListener;

    use super::*;
    use crate::server::tests::Running;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// Runs a command line; `@` stands for the server's address.
    async fn curl(line: &str, at: impl ToString) -> (String, Option<u8>) {
        let line = line.replace('@', &at.to_string());
        let Line { args } =
            Line::try_parse_from(std::iter::once("curl").chain(line.split(' '))).unwrap();
        let mut out = Vec::new();
        let code = run(args, &mut out).await.err().map(|failure| failure.code());
        (String::from_utf8(out).unwrap(), code)
    }

    #[test]
    fn a_url_needs_neither_scheme_port_nor_path() {
        let url: Url = "web".parse().unwrap();
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("web", 80, "/"));
        let url: Url = "http://[::1]:8080/a?b=c".parse().unwrap();
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("::1", 8080, "/a?b=c"));
        assert_eq!(url.authority, "[::1]:8080");
    }

    #[test]
    fn https_is_refused_with_a_reason() {
        assert!("https://web".parse::<Url>().unwrap_err().contains("no TLS"));
    }

    #[test]
    fn data_makes_a_post_unless_a_method_is_given() {
        let method = |line: &str| {
            let words = std::iter::once("curl").chain(line.split(' '));
            request(&Line::try_parse_from(words).unwrap().args).method().clone()
        };
        assert_eq!(method("web"), Method::GET);
        assert_eq!(method("-d x web"), Method::POST);
        assert_eq!(method("-X PUT -d x web"), Method::PUT);
    }

    #[test]
    fn the_final_text_knows_code_size_and_time() {
        let progress = Progress { status: Some(StatusCode::OK), size: 7 };
        let text = render("%{http_code} %{size_download} %{time_total}\\n", &progress, SECOND);
        assert_eq!(text, "200 7 1.000000\n");
        assert_eq!(render("%{http_code}", &Progress::default(), SECOND), "000");
    }

    #[tokio::test]
    async fn a_body_is_printed_and_the_code_follows() {
        let server = Running::start().await;
        let (out, code) = curl("-s -w |%{http_code} http://@/healthz", server.at).await;
        assert_eq!((out.as_str(), code), ("ok\n|200", None));
    }

    #[tokio::test]
    async fn a_body_can_go_to_a_file() {
        let server = Running::start().await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("body");
        let (out, code) = curl(&format!("-o {} @/bytes/100000", path.display()), server.at).await;
        assert_eq!((out.as_str(), code), ("", None));
        assert_eq!(path.metadata().unwrap().len(), 100_000);
    }

    #[tokio::test]
    async fn an_error_answer_fails_only_with_f_and_then_has_no_body() {
        let server = Running::start().await;
        let (out, code) = curl("@/nothing", server.at).await;
        assert!(!out.is_empty() && code.is_none());
        assert_eq!(curl("-f @/nothing", server.at).await, (String::new(), Some(22)));
    }

    #[tokio::test]
    async fn what_is_sent_to_echo_comes_back() {
        let server = Running::start().await;
        assert_eq!(curl("-d hello @/echo", server.at).await, ("hello".to_owned(), None));
    }

    #[tokio::test]
    async fn a_closed_port_is_7_and_prints_code_000() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        drop(listener);
        assert_eq!(curl("-w %{http_code} @", at).await, ("000".to_owned(), Some(7)));
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_is_28() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        assert_eq!(curl("--max-time 0.2 @", at).await, (String::new(), Some(28)));
    }

    const SECOND: Duration = Duration::from_secs(1);
}
