//! Errors, in words that help.

use std::error::Error;
use std::fmt::Display;

use kube::core::Status;

use crate::printer::Printer;

/// Why a command ends with an error.
#[derive(Debug)]
pub struct Failure {
    text: String,
    hints: Vec<String>,
}

impl Failure {
    /// Says what could not be done, and why.
    pub fn new(what: impl Display, error: impl Error + 'static) -> Self {
        Self { text: format!("{what}: {}", chain(&error)), hints: vec![] }
    }

    /// Says just this.
    pub fn text(text: impl Display) -> Self {
        Self { text: text.to_string(), hints: vec![] }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, text: impl Display) -> Self {
        self.hints.push(text.to_string());
        self
    }

    /// Says in which of two clusters.
    #[must_use]
    pub fn about(mut self, scope: &'static str) -> Self {
        self.text = format!("({scope}) {}", self.text);
        self
    }

    /// Tells the user.
    pub fn print(&self, printer: &Printer) {
        if !self.text.is_empty() {
            printer.error(&self.text);
        }
        for hint in &self.hints {
            printer.info(hint);
        }
    }
}

/// An error with its causes, as far as they add something.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = words(error);
    let mut at = error;
    while let Some(source) = at.source() {
        at = source;
        let more = words(at);
        if !more.is_empty() && !text.contains(&more) {
            text = format!("{text}: {more}");
        }
    }
    text
}

/// One link of the chain, without the names of programs' types.
fn words(error: &(dyn Error + 'static)) -> String {
    let boxed = || error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref);
    match error.downcast_ref::<kube::Error>().or_else(boxed) {
        Some(kube::Error::Api(status)) => {
            if status.message.is_empty() {
                status.reason.clone()
            } else {
                status.message.clone()
            }
        }
        // Their causes say it all.
        Some(kube::Error::HyperError(_) | kube::Error::Service(_)) => {
            "the API server cannot be reached".to_owned()
        }
        _ if error.is::<Status>() || error.is::<Box<Status>>() => String::new(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_the_api_server_is_told_once() {
        let status = Status::failure("secrets is forbidden: User \"x\" cannot list", "Forbidden");
        let error = kube::Error::Api(Box::new(status.with_code(403)));
        let (printer, kept) = Printer::memory(false, false);

        Failure::new("cannot look", error).hint("Ask.").print(&printer);

        let text = String::from_utf8(kept.lock().unwrap().clone()).unwrap();
        insta::assert_snapshot!(text, @r#"
        ERRO  cannot look: secrets is forbidden: User "x" cannot list
        INFO  Ask.
        "#);
    }
}
