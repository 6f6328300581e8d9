//! What a user sees while waiting: one moving line on a terminal, one line per finished step.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Where progress is shown: on standard error, so that standard output stays for results.
#[derive(Clone)]
pub struct Line {
    bar: Option<ProgressBar>,
    plain: bool,
    started: Instant,
    last: Arc<std::sync::Mutex<Instant>>,
}

/// How often a line moves when it cannot be overwritten.
const PLAIN_PERIOD: Duration = Duration::from_secs(20);

impl Line {
    /// A line on standard error.
    pub fn new() -> Self {
        let started = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { bar, plain: !terminal, started, last: Arc::new(std::sync::Mutex::new(started)) }
    }

    /// A line that nobody sees.
    pub fn silent() -> Self {
        let started = Instant::now();
        Self { bar: None, plain: false, started, last: Arc::new(std::sync::Mutex::new(started)) }
    }

    /// Says what is going on.
    pub fn say(&self, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(message.to_owned());
        } else if self.plain {
            let Ok(mut last) = self.last.lock() else { return };
            if last.elapsed() >= PLAIN_PERIOD {
                *last = Instant::now();
                self.print(&format!("… {message}"));
            }
        }
    }

    /// Says what is done.
    pub fn done(&self, message: &str) {
        let seconds = self.started.elapsed().as_secs_f32();
        let text = format!("✔ {message} ({seconds:.1} s)");
        if let Some(bar) = &self.bar {
            bar.println(text);
        } else if self.plain {
            self.print(&text);
        }
    }

    /// Takes the moving line away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    #[expect(clippy::print_stderr, reason = "this is where progress is shown")]
    #[expect(clippy::unused_self, reason = "printing belongs to the line")]
    fn print(&self, text: &str) {
        eprintln!("{text}");
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}
