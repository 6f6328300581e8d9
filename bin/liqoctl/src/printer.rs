//! What the user reads: lines with a prefix, and one line that moves while something is waited for.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use liqo_install::screen::Style;
use liqo_release::Report;

const TICK: Duration = Duration::from_millis(100);

const GREY: &str = "\x1b[90m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[31m";
const RESET: &str = "\x1b[0m";

/// Writes to the user; a clone writes to the same place.
#[derive(Clone)]
pub struct Printer {
    screen: Arc<Screen>,
    styled: bool,
    verbose: bool,
    /// Which of two clusters it writes about.
    scope: Option<&'static str>,
}

/// Where it is written.
struct Screen {
    out: Mutex<Box<dyn Write + Send>>,
    /// The line that moves, if there is one.
    line: Mutex<Option<ProgressBar>>,
}

impl Printer {
    /// Writes to the standard output, in colours if somebody looks.
    pub fn stdout(verbose: bool) -> Self {
        Self::new(Box::new(io::stdout()), io::stdout().is_terminal(), verbose)
    }

    fn new(out: Box<dyn Write + Send>, styled: bool, verbose: bool) -> Self {
        let screen = Screen { out: Mutex::new(out), line: Mutex::default() };
        Self { screen: Arc::new(screen), styled, verbose, scope: None }
    }

    /// Writes about one of two clusters.
    pub fn about(&self, scope: &'static str) -> Self {
        Self { scope: Some(scope), ..self.clone() }
    }

    /// Whether the user wants to know more.
    pub fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// How words may stand out.
    pub fn style(&self) -> Style {
        if self.styled { Style::Terminal } else { Style::Plain }
    }

    /// Tells something.
    pub fn info(&self, text: impl Display) {
        self.prefixed(GREY, "INFO", &text);
    }

    /// Tells something good.
    pub fn success(&self, text: impl Display) {
        self.prefixed(GREEN, "INFO", &text);
    }

    /// Tells something that may matter.
    pub fn warn(&self, text: impl Display) {
        self.prefixed(YELLOW, "WARN", &text);
    }

    /// Tells something bad.
    pub fn error(&self, text: impl Display) {
        self.prefixed(RED, "ERRO", &text);
    }

    /// Tells something, if the user wants to know more.
    pub fn verbose(&self, text: impl Display) {
        if self.verbose {
            self.info(text);
        }
    }

    /// Writes a text as it is.
    pub fn plain(&self, text: impl Display) {
        let write = || {
            let mut out = self.screen.out.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever does not listen any more misses nothing.
            let _ = writeln!(out, "{text}").and_then(|()| out.flush());
        };
        match &*self.line() {
            Some(line) => line.suspend(write),
            None => write(),
        }
    }

    /// Shows that something is going on, until the result is told.
    pub fn start(&self, text: impl Display) -> Step<'_> {
        if self.styled {
            let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
            let style = ProgressStyle::with_template("  {spinner:.cyan}   {msg} ({elapsed})");
            line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            line.set_message(self.scoped(&text));
            line.enable_steady_tick(TICK);
            *self.line() = Some(line);
        } else {
            self.verbose(&text);
        }
        Step { printer: self, text: text.to_string() }
    }

    fn scoped(&self, text: &dyn Display) -> String {
        self.scope.map_or_else(|| text.to_string(), |scope| format!("({scope}) {text}"))
    }

    fn prefixed(&self, colour: &str, word: &str, text: &dyn Display) {
        let text = self.scoped(text);
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let rest: String = lines.map(|line| format!("\n       {line}")).collect();
        if self.styled {
            self.plain(format!("{colour} {word} {RESET} {first}{rest}"));
        } else {
            self.plain(format!(" {word}  {first}{rest}"));
        }
    }

    fn line(&self) -> std::sync::MutexGuard<'_, Option<ProgressBar>> {
        self.screen.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that is going on.
pub struct Step<'a> {
    printer: &'a Printer,
    text: String,
}

impl Step<'_> {
    /// It went well.
    pub fn done(self, text: impl Display) {
        self.clear();
        self.printer.success(text);
    }

    fn clear(&self) {
        if let Some(line) = self.printer.line().take() {
            line.finish_and_clear();
        }
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Report for Step<'_> {
    fn step(&self, text: &str) {
        let text = format!("{}: {text}", self.text);
        match &*self.printer.line() {
            Some(line) => line.set_message(self.printer.scoped(&text)),
            None => self.printer.verbose(text),
        }
    }

    fn detail(&self, text: &str) {
        self.printer.verbose(text);
    }
}

#[cfg(test)]
impl Printer {
    /// Writes to memory.
    pub fn memory(styled: bool, verbose: bool) -> (Self, Arc<Mutex<Vec<u8>>>) {
        struct Shared(Arc<Mutex<Vec<u8>>>);
        impl Write for Shared {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().extend(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let kept = Arc::<Mutex<Vec<u8>>>::default();
        (Self::new(Box::new(Shared(kept.clone())), styled, verbose), kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_how_much_they_matter() {
        insta::assert_snapshot!(said(false, false), @r"
         INFO  a
         INFO  b
               and more
         WARN  c
         ERRO  d
        ");
    }

    #[test]
    fn the_curious_read_more() {
        assert!(said(false, true).contains(" INFO  work\n"));
        assert!(said(false, true).ends_with(" INFO  secret\n"));
    }

    #[test]
    fn colours_are_for_terminals() {
        assert!(said(true, false).contains("\x1b[31m ERRO \x1b[0m d\n"));
        assert!(!said(false, false).contains('\x1b'));
    }

    #[test]
    fn of_two_clusters_it_is_said_which_is_meant() {
        let (printer, kept) = Printer::memory(false, false);
        printer.about("local").info("here");
        printer.about("remote").start("work").done("there");
        let text = String::from_utf8(kept.lock().unwrap().clone()).unwrap();
        insta::assert_snapshot!(text, @r"
         INFO  (local) here
         INFO  (remote) there
        ");
    }

    fn said(styled: bool, verbose: bool) -> String {
        let (printer, kept) = Printer::memory(styled, verbose);
        printer.info("a");
        if !styled {
            printer.start("work").done("b\nand more");
        }
        printer.warn("c");
        printer.error("d");
        printer.verbose("secret");
        let kept = kept.lock().unwrap();
        String::from_utf8(kept.clone()).unwrap()
    }
}
