//! What the user, or the system, says to end a command early.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;

/// Does what can be done again at any time, unless somebody wants the command to end.
pub async fn repeatable(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::select! {
        result = work => result,
        () = interrupted() => Err(Failure::text("interrupted")
            .hint("What was done stays; run the command again to go on.")),
    }
}

/// Waits until somebody wants the command to end.
pub async fn interrupted() {
    // Without signals there is nothing to wait for.
    let never = std::future::pending::<()>;
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await.unwrap_or_default(),
            Err(_) => never().await,
        }
    };
    tokio::select! {
        () = terminated => {}
        result = tokio::signal::ctrl_c() => {
            if result.is_err() {
                never().await;
            }
        }
    }
}
