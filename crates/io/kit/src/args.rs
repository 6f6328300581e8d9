//! Flags that every component has, and the grammar they are written in.
//!
//! The flags are those of Go programs: one dash does what two do, and a yes-or-no flag may carry
//! its value. [`double_dashes`] turns the first into what clap reads.

pub mod values;

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use clap::{ArgAction, Args, ValueEnum};

/// What is logged, and how.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// Verbosity: 0 tells what a user would notice, 4 adds decisions, 6 adds objects
    #[arg(short = 'v', long = "v", alias = "klog.v", default_value_t, value_name = "LEVEL")]
    pub verbosity: u8,

    /// What to log, by module, such as `info,liqo_kit=debug`; wins over the verbosity
    #[arg(long, env = "LIQO_LOG", value_name = "FILTER")]
    pub log_filter: Option<String>,

    /// How a line of the log looks
    #[arg(long, value_enum, default_value_t, env = "LIQO_LOG_FORMAT")]
    pub log_format: LogFormat,

    /// Accepted without effect.
    #[command(flatten)]
    pub klog: KlogArgs,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines.
    Json,
}

/// Flags of the logging library of Go programs that have no meaning here; they are accepted, so
/// that command lines that work elsewhere work here.
#[derive(Args, Clone, Debug, Default)]
pub struct KlogArgs {
    #[arg(long, alias = "klog.logtostderr", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    logtostderr: Option<bool>,
    #[arg(long, alias = "klog.alsologtostderr", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    alsologtostderr: Option<bool>,
    #[arg(long, alias = "klog.skip_headers", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_headers: Option<bool>,
    #[arg(long = "add_dir_header", alias = "klog.add_dir_header", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    add_dir_header: Option<bool>,
    #[arg(long = "one_output", alias = "klog.one_output", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    one_output: Option<bool>,
    #[arg(long = "skip_log_headers", alias = "klog.skip_log_headers", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_log_headers: Option<bool>,
    #[arg(long = "log_dir", alias = "klog.log_dir", hide = true, action = ArgAction::Append)]
    log_dir: Vec<String>,
    #[arg(long = "log_file", alias = "klog.log_file", hide = true, action = ArgAction::Append)]
    log_file: Vec<String>,
    #[arg(long = "log_file_max_size", alias = "klog.log_file_max_size", hide = true, action = ArgAction::Append)]
    log_file_max_size: Vec<String>,
    #[arg(long = "log_backtrace_at", alias = "klog.log_backtrace_at", hide = true, action = ArgAction::Append)]
    log_backtrace_at: Vec<String>,
    #[arg(long, alias = "klog.stderrthreshold", hide = true, action = ArgAction::Append)]
    stderrthreshold: Vec<String>,
    #[arg(long, alias = "klog.vmodule", hide = true, action = ArgAction::Append)]
    vmodule: Vec<String>,
}

/// How fast a component may talk to an API server.
///
/// API servers share themselves out fairly, and say so when they are busy; these limits are for what
/// goes wrong, not for the usual.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Clients")]
pub struct ClientArgs {
    /// Requests per second to an API server, in the long run
    #[arg(long = "client-qps", default_value = "1000", value_name = "COUNT")]
    pub qps: NonZeroU32,

    /// Requests to an API server that may come at once
    #[arg(long = "client-max-burst", default_value = "1000", value_name = "COUNT")]
    pub burst: NonZeroU32,
}

/// An address to listen on, as Go programs write it: `:8080` is every address of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address or name; nothing for all addresses.
    pub host: Option<String>,
    /// The port; zero for a free one.
    pub port: u16,
}

/// A text that is no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not of the form [HOST]:PORT")]
pub struct NoAddress(String);

impl FromStr for Listen {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let refuse = || NoAddress(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(refuse)?;
        let port = port.parse().map_err(|_| refuse())?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if bare.is_none() && host.contains(':') {
            return Err(refuse());
        }
        let host = bare.unwrap_or(host);
        Ok(Self { host: (!host.is_empty()).then(|| host.to_owned()), port })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.as_deref() {
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
            None => write!(f, ":{}", self.port),
        }
    }
}

/// Gives flags with one dash and a long name their second dash, up to a lone `--`.
pub fn double_dashes(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut flags = true;
    let double = |word: String| {
        flags &= word != "--";
        let name = word.strip_prefix('-').and_then(|rest| rest.split('=').next());
        let is_long = name.is_some_and(|name| {
            name.len() > 1 && name.starts_with(|c: char| c.is_ascii_alphabetic())
        });
        if flags && is_long { format!("-{word}") } else { word }
    };
    words.into_iter().map(double).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        logs: LogArgs,
        #[command(flatten)]
        client: ClientArgs,
    }

    #[test]
    fn flags_of_go_programs_are_understood() {
        for words in [["-v=4", "-logtostderr"], ["--v=4", "--logtostderr=false"], ["-v", "4"]] {
            let line = parse(&words).unwrap();
            assert_eq!((line.logs.verbosity, line.client.qps.get()), (4, 1000), "{words:?}");
        }
        let line = parse(&["--klog.v=6", "-client-qps=5", "-client-max-burst", "7"]).unwrap();
        assert_eq!(
            (line.logs.verbosity, line.client.qps.get(), line.client.burst.get()),
            (6, 5, 7)
        );
    }

    #[test]
    fn only_long_flags_get_a_second_dash() {
        let words = ["-v", "-vmodule=a=1", "--x", "-", "-5", "--", "-name"].map(str::to_owned);
        assert_eq!(double_dashes(words), ["-v", "--vmodule=a=1", "--x", "-", "-5", "--", "-name"]);
    }

    #[test]
    fn addresses_are_read_as_go_reads_them() {
        for (text, host, port) in [
            (":8080", None, 8080),
            ("127.0.0.1:0", Some("127.0.0.1"), 0),
            ("[::1]:80", Some("::1"), 80),
        ] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!((listen.host.as_deref(), listen.port), (host, port));
            assert_eq!(listen.to_string(), text);
        }
        for text in ["", "8080", "::1:80", "host:", "host:99999"] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }

    #[test]
    fn no_requests_at_all_are_refused() {
        assert!(parse(&["--client-qps=0"]).is_err());
    }

    fn parse(words: &[&str]) -> Result<Line, clap::Error> {
        let words = words.iter().map(|word| (*word).to_owned());
        Line::try_parse_from(double_dashes(std::iter::once("liqo".to_owned()).chain(words)))
    }
}
