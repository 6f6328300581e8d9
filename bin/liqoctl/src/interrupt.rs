//! What the user, or the system, says to end a command early.

use tokio::signal::unix::{SignalKind, signal};

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
