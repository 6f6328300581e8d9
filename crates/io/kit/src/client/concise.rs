//! Watches of pods, and all that is about metadata, cost less: API servers are asked for Protocol
//! Buffers.
//!
//! That is half of what JSON takes, and what API servers make anyway for their own components, once
//! for all of them; JSON they would make for us alone. Whoever watches still reads JSON: it is made
//! here, of metadata, of status, and of the little of a specification that is needed of pods which
//! already run. So such a client is not for whoever needs all of a pod.
//!
//! Should an API server say something of a status that is not known here, it is asked for JSON from
//! then on, and nothing is lost.

mod fields;
mod read;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf as _, Bytes, BytesMut};
use futures::stream::{self, Stream, StreamExt as _};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use tower::BoxError;
use tracing::info;

use self::read::Misread;

/// How large one object may be; API servers take no more than a few megabytes.
const LARGEST: usize = 16 << 20;

/// What metadata is asked for as.
const PARTIAL: &str = "as=PartialObjectMetadata";
/// What lists of it are asked for as.
const LIST: &str = "as=PartialObjectMetadataList";

/// An answer that is, or becomes, JSON.
type Json = UnsyncBoxBody<Bytes, BoxError>;

/// The same client, where watches of pods, and all that is about metadata, cost less.
pub fn concise(client: &Client) -> Client {
    let (inner, is_plain) = (client.clone(), Arc::new(AtomicBool::new(false)));
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let (inner, is_plain) = (inner.clone(), Arc::clone(&is_plain));
        let is_watch = is_watch(&request);
        if !is_plain.load(Ordering::Relaxed)
            && let Some(accept) = accepted(&request, is_watch)
        {
            request.headers_mut().insert(ACCEPT, accept);
        }
        async move {
            let response = inner.send(request).await?;
            Ok::<_, BoxError>(match (is_concise(&response), is_watch) {
                (true, true) => response.map(|body| as_json(body, is_plain)),
                (true, false) => whole(response).await?,
                (false, _) => response.map(|body| body.map_err(BoxError::from).boxed_unsync()),
            })
        }
    });
    Client::new(service, client.default_namespace())
}

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query();
    request.method() == Method::GET && query.is_some_and(|query| query.contains("watch=true"))
}

/// What is accepted in place of JSON; nothing where JSON it is.
fn accepted(request: &Request<Body>, is_watch: bool) -> Option<HeaderValue> {
    let asked = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
    let is_partial = asked.is_some_and(|asked| asked.contains(PARTIAL) && !asked.contains(LIST));
    let of = match is_partial {
        true => ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        false if is_watch && request.uri().path().ends_with("/pods") => "",
        false => return None,
    };
    let stream = if is_watch { ";stream=watch" } else { "" };
    let text = format!("application/vnd.kubernetes.protobuf{of}{stream},application/json{of}");
    HeaderValue::from_str(&text).ok()
}

/// An answer as JSON that is one object.
async fn whole(response: Response<Body>) -> Result<Response<Json>, BoxError> {
    let (mut head, body) = response.into_parts();
    let object = read::object(&body.collect().await?.to_bytes())?;
    let text = Bytes::from(serde_json::to_vec(&object)?);
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    head.headers.remove(CONTENT_LENGTH);
    let body = Full::new(text).map_err(|never| match never {}).boxed_unsync();
    Ok(Response::from_parts(head, body))
}

fn is_concise(response: &Response<Body>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    response.status().is_success()
        && kind.is_some_and(|kind| kind.starts_with("application/vnd.kubernetes.protobuf"))
}

/// The events of a watch as lines of JSON.
fn as_json(body: Body, is_plain: Arc<AtomicBool>) -> Json {
    let lines = lines(body.into_data_stream()).map(move |line| {
        line.map(Frame::data).inspect_err(|error| {
            if error.is::<Misread>() && !is_plain.swap(true, Ordering::Relaxed) {
                info!(why = %error, "An API server is asked for JSON from now on");
            }
        })
    });
    StreamBody::new(lines).boxed_unsync()
}

/// Lines of JSON out of frames, each with its length before it.
fn lines<S, E>(chunks: S) -> impl Stream<Item = Result<Bytes, BoxError>> + Send
where
    S: Stream<Item = Result<Bytes, E>> + Send + Unpin,
    E: Into<BoxError> + Send,
{
    stream::unfold(Some((chunks, BytesMut::new())), async |state| {
        let (mut chunks, mut rest) = state?;
        loop {
            match frame(&mut rest) {
                Ok(Some(line)) => return Some((Ok(line), Some((chunks, rest)))),
                Ok(None) => {}
                Err(misread) => return Some((Err(misread.into()), None)),
            }
            match chunks.next().await? {
                Ok(chunk) => rest.extend_from_slice(&chunk),
                Err(error) => return Some((Err(error.into()), None)),
            }
        }
    })
}

/// The next frame as a line, if all of it is there.
fn frame(rest: &mut BytesMut) -> Result<Option<Bytes>, Misread> {
    let Some(&length) = rest.first_chunk() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > LARGEST {
        return Err(Misread::Broken);
    }
    if rest.len() < length + size_of::<u32>() {
        return Ok(None);
    }
    rest.advance(size_of::<u32>());
    read::event(&rest.split_to(length)).map(|line| Some(line.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_watches_of_pods_and_what_is_about_metadata_are_changed() {
        let accept = |method: Method, path: &str, accept: &str| {
            let request = Request::builder().method(method).uri(path).header(ACCEPT, accept);
            let request = request.body(Body::empty()).unwrap();
            let accepted = accepted(&request, is_watch(&request))?;
            Some(accepted.to_str().unwrap().to_owned())
        };
        let json = "application/json";
        let pods = "/api/v1/namespaces/shop/pods?&watch=true";
        let changed = accept(Method::GET, pods, json).unwrap();
        assert!(changed.starts_with("application/vnd.kubernetes.protobuf;stream=watch,"));
        assert_eq!(accept(Method::GET, "/api/v1/pods?limit=500", json), None);
        assert_eq!(accept(Method::GET, "/api/v1/secrets?&watch=true", json), None);
        assert_eq!(accept(Method::POST, pods, json), None);
        let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let changed = accept(Method::GET, "/api/v1/secrets?&watch=true", partial).unwrap();
        assert!(changed.contains("protobuf;as=PartialObjectMetadata;"), "{changed}");
        let changed = accept(Method::POST, "/api/v1/secrets", partial).unwrap();
        assert!(changed.contains("protobuf;as=") && !changed.contains("watch"), "{changed}");
        let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        assert_eq!(accept(Method::GET, "/api/v1/secrets", list), None);
    }

    #[tokio::test]
    async fn frames_may_come_in_any_pieces_and_what_is_broken_ends_the_watch() {
        let status =
            b"\x0a\x05ERROR\x12\x17\x0a\x15k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x01\x00";
        let status = &status[..status.len() - 3];
        let mut sent = u32::try_from(status.len()).unwrap().to_be_bytes().to_vec();
        sent.extend_from_slice(status);
        for size in 1..sent.len() {
            let chunks: Vec<_> = sent
                .chunks(size)
                .map(|chunk| Ok::<_, BoxError>(Bytes::copy_from_slice(chunk)))
                .collect();
            let lines: Vec<_> = lines(stream::iter(chunks)).collect().await;
            assert_eq!(lines.len(), 1, "pieces of {size}");
        }
        let broken = [Ok::<_, BoxError>(Bytes::from_static(b"\0\0\0\x01\x07more"))];
        let lines: Vec<_> = lines(stream::iter(broken)).collect().await;
        assert!(lines.len() == 1 && lines[0].as_ref().is_err_and(|error| error.is::<Misread>()));
    }
}
