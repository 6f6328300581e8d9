//! What each path of the server does.
//!
//! ```text
//! GET  /                  where we run and who asks, as JSON
//! GET  /healthz           ok
//! GET  /env/NAME          an environment variable
//! GET  /file/ABSOLUTE     a file        PUT  writes one, up to 1 MiB
//! GET  /bytes/N           N bytes, up to 1 GiB
//! POST /echo              the body of the request
//! ```

use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use tokio::fs;
use tokio::io::AsyncWriteExt as _;

use super::Place;
use super::zeros::Zeros;

/// The path that probes use.
pub(super) const HEALTH: &str = "/healthz";
const LARGEST_FILE: usize = 1 << 20;
const LARGEST_STREAM: u64 = 1 << 30;

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Route<'a> {
    Identity,
    Health,
    Variable(&'a str),
    Read(&'a Path),
    Write(&'a Path),
    Stream(u64),
    Echo,
    Nothing,
}

impl<'a> Route<'a> {
    fn of(method: &Method, path: &'a str) -> Self {
        let is_read = [Method::GET, Method::HEAD].contains(method);
        if let Some(file) = path.strip_prefix("/file").filter(|file| file.starts_with('/')) {
            return match *method {
                Method::GET | Method::HEAD => Self::Read(Path::new(file)),
                Method::PUT => Self::Write(Path::new(file)),
                _ => Self::Nothing,
            };
        }
        match path {
            "/" if is_read => Self::Identity,
            HEALTH if is_read => Self::Health,
            "/echo" if method == Method::POST => Self::Echo,
            _ if is_read => path
                .strip_prefix("/env/")
                .filter(|name| !name.is_empty())
                .map(Self::Variable)
                .or_else(|| {
                    let size = path.strip_prefix("/bytes/")?.parse().ok()?;
                    (size <= LARGEST_STREAM).then_some(Self::Stream(size))
                })
                .unwrap_or(Self::Nothing),
            _ => Self::Nothing,
        }
    }
}

/// A body of whatever origin.
type AnyBody<E> = BoxBody<Bytes, E>;

/// Answers one request of `client`.
pub(super) async fn answer<B>(
    request: Request<B>,
    client: SocketAddr,
    place: &Place,
) -> Response<AnyBody<B::Error>>
where
    B: Body<Data = Bytes> + Send + Sync + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let (head, body) = request.into_parts();
    match Route::of(&head.method, head.uri.path()) {
        Route::Identity => {
            let answer = place.identity.answer(&place.hostname, client);
            match serde_json::to_string(&answer) {
                Ok(json) => {
                    let mut response = text(StatusCode::OK, json + "\n");
                    response
                        .headers_mut()
                        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                    response
                }
                Err(error) => line(StatusCode::INTERNAL_SERVER_ERROR, error),
            }
        }
        Route::Health => line(StatusCode::OK, "ok"),
        Route::Variable(name) => match std::env::var_os(name) {
            Some(value) => text(StatusCode::OK, value.into_vec()),
            None => line(StatusCode::NOT_FOUND, format_args!("{name} is not set")),
        },
        Route::Read(path) => match read(path).await {
            Ok(contents) => text(StatusCode::OK, contents),
            Err(error) => failed(path, &error),
        },
        Route::Write(path) => match Limited::new(body, LARGEST_FILE).collect().await {
            Ok(whole) => match write(path, &whole.to_bytes()).await {
                Ok(()) => line(StatusCode::CREATED, format_args!("{} written", path.display())),
                Err(error) => failed(path, &error),
            },
            Err(error) if error.is::<LengthLimitError>() => {
                line(StatusCode::PAYLOAD_TOO_LARGE, "a file may have 1 MiB")
            }
            Err(error) => line(StatusCode::BAD_REQUEST, error),
        },
        Route::Stream(size) => {
            Response::new(Zeros::new(size).map_err(|never| match never {}).boxed())
        }
        Route::Echo => Response::new(body.boxed()),
        Route::Nothing => line(
            StatusCode::NOT_FOUND,
            format_args!("nothing answers {} {}", head.method, head.uri.path()),
        ),
    }
}

async fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Devices and pipes may never end.
    if !fs::metadata(path).await?.is_file() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "not a regular file"));
    }
    fs::read(path).await
}

async fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path).await?;
    file.write_all(contents).await?;
    file.sync_all().await
}

fn failed<E>(path: &Path, error: &io::Error) -> Response<AnyBody<E>> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    let status = if matches!(error.kind(), NotFound | NotADirectory) {
        StatusCode::NOT_FOUND
    } else if matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem) {
        StatusCode::FORBIDDEN
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    };
    line(status, format_args!("{}: {error}", path.display()))
}

fn line<E>(status: StatusCode, message: impl std::fmt::Display) -> Response<AnyBody<E>> {
    text(status, format!("{message}\n"))
}

fn text<E>(status: StatusCode, contents: impl Into<Bytes>) -> Response<AnyBody<E>> {
    let body = Full::new(contents.into()).map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use serde_json::Value;

    use super::*;
    use crate::identity::Identity;

    #[test]
    fn paths_and_methods_choose_what_is_done() {
        let get = |path| Route::of(&Method::GET, path);
        assert_eq!(get("/"), Route::Identity);
        assert_eq!(get("/healthz"), Route::Health);
        assert_eq!(get("/env/HOME"), Route::Variable("HOME"));
        assert_eq!(get("/file/etc/hosts"), Route::Read(Path::new("/etc/hosts")));
        assert_eq!(get("/bytes/10"), Route::Stream(10));
        assert_eq!(get("/bytes/1073741824"), Route::Stream(1 << 30));
        assert_eq!(Route::of(&Method::PUT, "/file/a"), Route::Write(Path::new("/a")));
        assert_eq!(Route::of(&Method::POST, "/echo"), Route::Echo);
        assert_eq!(Route::of(&Method::HEAD, "/"), Route::Identity);
    }

    #[test]
    fn whatever_else_is_nothing() {
        for path in ["/x", "/env/", "/file", "/filex", "/bytes/", "/bytes/-1", "/bytes/1073741825"]
        {
            assert_eq!(Route::of(&Method::GET, path), Route::Nothing, "{path}");
        }
        assert_eq!(Route::of(&Method::POST, "/"), Route::Nothing);
        assert_eq!(Route::of(&Method::GET, "/echo"), Route::Nothing);
        assert_eq!(Route::of(&Method::DELETE, "/file/a"), Route::Nothing);
    }

    #[tokio::test]
    async fn the_root_tells_who_asks() {
        let (status, body) = ask(Method::GET, "/", "").await;
        let json: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((status, &json["client"]), (StatusCode::OK, &"127.0.0.1:4711".into()));
        assert_eq!(json["hostname"], "here");
    }

    #[tokio::test]
    async fn variables_are_told_or_not_found() {
        let (status, body) = ask(Method::GET, "/env/CARGO_PKG_NAME", "").await;
        assert_eq!((status, body.as_slice()), (StatusCode::OK, &b"liqo-demo"[..]));
        assert_eq!(ask(Method::GET, "/env/NO_SUCH_NAME", "").await.0, StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn what_was_put_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = format!("/file{}/note", folder.path().display());
        assert_eq!(ask(Method::GET, &path, "").await.0, StatusCode::NOT_FOUND);
        assert_eq!(ask(Method::PUT, &path, "kept").await.0, StatusCode::CREATED);
        assert_eq!(ask(Method::GET, &path, "").await, (StatusCode::OK, b"kept".to_vec()));
    }

    #[tokio::test]
    async fn a_file_over_the_limit_is_refused_and_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = format!("/file{}/note", folder.path().display());
        let large = "x".repeat(LARGEST_FILE + 1);
        assert_eq!(ask(Method::PUT, &path, &large).await.0, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(!folder.path().join("note").exists());
    }

    #[tokio::test]
    async fn devices_and_folders_are_not_read() {
        for path in ["/file/dev/zero", "/file/etc"] {
            assert_eq!(ask(Method::GET, path, "").await.0, StatusCode::NOT_FOUND, "{path}");
        }
    }

    #[tokio::test]
    async fn unknown_paths_are_told_in_one_line() {
        let (status, body) = ask(Method::GET, "/x", "").await;
        assert_eq!(
            (status, body.as_slice()),
            (StatusCode::NOT_FOUND, &b"nothing answers GET /x\n"[..])
        );
    }

    async fn ask(method: Method, path: &str, body: &str) -> (StatusCode, Vec<u8>) {
        let place = Place { identity: Identity::default(), hostname: "here".to_owned() };
        let mut request = Request::new(Full::new(Bytes::from(body.to_owned())));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap();
        let client = SocketAddr::from((Ipv4Addr::LOCALHOST, 4711));
        let response = answer(request, client, &place).await;
        let status = response.status();
        (status, response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }
}
