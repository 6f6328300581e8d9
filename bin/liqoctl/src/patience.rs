//! Writes that wait for Liqo's own webhooks, which are away while the controller manager restarts.

use std::time::Duration;

use kube::Error;
use tokio::time::{Instant, sleep};

use crate::printer::Printer;

/// Between attempts: the API server says no right away, and nobody tells when it would say yes.
const PAUSE: Duration = Duration::from_millis(300);

/// Tries again as long as a webhook of ours does not answer, up to a limit.
pub async fn despite_restarts<T>(
    limit: Duration,
    printer: &Printer,
    write: impl AsyncFn() -> Result<T, Error>,
) -> Result<T, Error> {
    let end = Instant::now() + limit;
    let mut step = None;
    loop {
        match write().await {
            Err(error) if is_away(&error) && Instant::now() < end => {
                let _ = step.get_or_insert_with(|| {
                    printer
                        .start("Waiting for liqo-controller-manager, whose webhooks do not answer")
                });
                sleep(PAUSE).await;
            }
            result => return result,
        }
    }
}

/// Whether a webhook of ours did not answer.
fn is_away(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 500
        && status.message.contains("failed calling webhook")
        && status.message.contains(".liqo.io\""))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kube::core::Status;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_webhook_that_comes_back_is_waited_for() {
        let (printer, _) = Printer::memory(false, false);
        let tries = Cell::new(0);
        let written = despite_restarts(Duration::from_mins(1), &printer, async || {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(away("fc.mutate.liqo.io")) } else { Ok(7) }
        });
        assert_eq!((written.await.unwrap(), tries.get()), (7, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_else_is_tried_again_nor_for_ever() {
        let (printer, _) = Printer::memory(false, false);
        let tries = Cell::new(0);
        let refused = despite_restarts(Duration::from_mins(1), &printer, async || {
            tries.set(tries.get() + 1);
            Err::<(), _>(away("policy.example.org"))
        });
        assert!(refused.await.is_err());
        assert_eq!(tries.get(), 1);
        let never = despite_restarts(Duration::from_secs(1), &printer, async || {
            Err::<(), _>(away("fc.mutate.liqo.io"))
        });
        assert!(never.await.is_err());
    }

    fn away(webhook: &str) -> Error {
        let message = format!("failed calling webhook \"{webhook}\": connection refused");
        Error::Api(Box::new(Status { code: 500, ..Status::failure(&message, "InternalError") }))
    }
}
