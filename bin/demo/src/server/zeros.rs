//! A body of a given size that costs no memory, to measure how fast a path is.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

/// One chunk; all frames share it.
static CHUNK: [u8; 64 * 1024] = [0; 64 * 1024];

/// So many bytes, all zero.
#[derive(Debug)]
pub(super) struct Zeros {
    left: u64,
}

impl Zeros {
    pub(super) fn new(size: u64) -> Self {
        Self { left: size }
    }
}

impl Body for Zeros {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let size = usize::try_from(self.left).unwrap_or(usize::MAX).min(CHUNK.len());
        if size == 0 {
            return Poll::Ready(None);
        }
        self.left = self.left.saturating_sub(u64::try_from(size).unwrap_or(u64::MAX));
        let chunk = Bytes::from_static(&CHUNK).slice(..size);
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_body_has_exactly_the_size_asked_for() {
        for size in [0, 1, 65_536, 65_537, 200_000] {
            let body = Zeros::new(size);
            assert_eq!(body.size_hint().exact(), Some(size));
            let bytes = body.collect().await.unwrap().to_bytes();
            assert_eq!(u64::try_from(bytes.len()).unwrap(), size);
        }
    }
}
