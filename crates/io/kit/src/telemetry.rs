//! Logs: what is written, and how that is changed while the program runs.

use std::io::{self, IsTerminal as _};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::args::{LogArgs, LogFormat};

/// A filter that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is malformed.
    #[error("cannot read the log filter '{filter}'")]
    Filter {
        /// The filter as it was given.
        filter: String,
        /// Why.
        source: tracing_subscriber::filter::ParseError,
    },
    /// Logs were started before.
    #[error("cannot start logging")]
    Start(#[source] tracing_subscriber::util::TryInitError),
    /// Logs have ended.
    #[error("cannot change what is logged")]
    Change(#[source] reload::Error),
}

/// What is logged, while the program runs; a clone changes the same logs.
#[derive(Clone)]
pub struct Logs {
    filter: reload::Handle<EnvFilter, Registry>,
    current: Arc<Mutex<String>>,
}

impl Logs {
    /// Starts logging to the standard error stream, once per process.
    pub fn start(args: &LogArgs) -> Result<Self, Error> {
        let filter =
            args.log_filter.clone().unwrap_or_else(|| filter_of(args.verbosity).to_owned());
        let (layer, handle) = reload::Layer::new(parse(&filter)?);
        let registry = tracing_subscriber::registry().with(layer);
        let colours = io::stderr().is_terminal();
        match args.log_format {
            LogFormat::Text => {
                registry.with(fmt::layer().with_ansi(colours).with_writer(io::stderr)).try_init()
            }
            LogFormat::Json => {
                registry.with(fmt::layer().json().with_writer(io::stderr)).try_init()
            }
        }
        .map_err(Error::Start)?;
        Ok(Self { filter: handle, current: Arc::new(Mutex::new(filter)) })
    }

    /// The filter in use.
    pub fn filter(&self) -> String {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uses another filter from here on: directives such as `info,liqo_kit=debug`, or a verbosity.
    pub fn set_filter(&self, filter: &str) -> Result<(), Error> {
        let filter = filter.trim();
        let filter = if let Ok(verbosity) = filter.parse() { filter_of(verbosity) } else { filter };
        self.filter.reload(parse(filter)?).map_err(Error::Change)?;
        filter.clone_into(&mut self.current.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}

/// The filter that a verbosity stands for: our modules first, everybody else's later. What
/// interrupts watches is told by our own.
fn filter_of(verbosity: u8) -> &'static str {
    match verbosity {
        0..=3 => "info,kube_runtime=error",
        4..=5 => "info,kube_runtime=error,liqo=debug",
        6..=7 => "info,liqo=trace",
        8..=9 => "debug,liqo=trace",
        10.. => "trace",
    }
}

fn parse(filter: &str) -> Result<EnvFilter, Error> {
    EnvFilter::try_new(filter).map_err(|source| Error::Filter { filter: filter.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    impl Logs {
        /// Logs that nobody writes; the layer behind the handle lives as long as the process.
        pub(crate) fn for_test() -> Self {
            let (layer, filter) = reload::Layer::new(parse("info").unwrap());
            Box::leak(Box::new(layer));
            Self { filter, current: Arc::new(Mutex::new("info".to_owned())) }
        }
    }

    #[test]
    fn every_verbosity_is_a_filter() {
        for verbosity in 0..=u8::MAX {
            parse(filter_of(verbosity)).unwrap();
        }
    }

    #[test]
    fn our_debug_lines_come_before_those_of_others() {
        let logs = tracing_subscriber::registry().with(parse(filter_of(4)).unwrap());
        tracing::subscriber::with_default(logs, || {
            assert!(tracing::enabled!(target: "liqo_kit::keyed", Level::DEBUG));
            assert!(!tracing::enabled!(target: "kube_client::client", Level::DEBUG));
            assert!(tracing::enabled!(target: "kube_client::client", Level::INFO));
        });
    }

    #[test]
    fn a_malformed_filter_is_named() {
        let error = parse("liqo=loud=very").unwrap_err();
        assert_eq!(error.to_string(), "cannot read the log filter 'liqo=loud=very'");
    }
}
