//! Why a command failed, and the exit code that scripts know from curl and dig.

use std::error::Error as _;
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use hickory_resolver::net::NetError;
use hickory_resolver::proto::op::ResponseCode;
use http::StatusCode;

/// Answers of name servers, as dig spells them.
const NAMES: [(ResponseCode, &str); 6] = [
    (ResponseCode::NoError, "NOERROR"),
    (ResponseCode::FormErr, "FORMERR"),
    (ResponseCode::ServFail, "SERVFAIL"),
    (ResponseCode::NXDomain, "NXDOMAIN"),
    (ResponseCode::NotImp, "NOTIMP"),
    (ResponseCode::Refused, "REFUSED"),
];

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line makes no sense as a whole.
    #[error("{0}")]
    Usage(&'static str),
    /// The server could not start or accept.
    #[error("cannot serve")]
    Serve(#[source] io::Error),
    /// A name has no address.
    #[error("could not resolve host: {host}")]
    Resolve { host: String, source: io::Error },
    /// No address of a host accepts us.
    #[error("failed to connect to {to}")]
    Connect { to: String, source: io::Error },
    /// The time the user gave is over.
    #[error("timed out after {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The answer is an error, and `-f` was given.
    #[error("the requested URL returned error: {}", .0.as_u16())]
    Status(StatusCode),
    /// A connection broke or spoke something else than HTTP.
    #[error("transfer failed")]
    Transfer(#[source] hyper::Error),
    /// A datagram was not sent or its reply not received.
    #[error("transfer failed")]
    Datagram(#[source] io::Error),
    /// The result could not be written.
    #[error("failed to write the output")]
    Output(#[from] io::Error),
    /// The name server answered, but not with records.
    #[error(";; status: {}", spelled(*.0))]
    Answer(ResponseCode),
    /// No name server answered.
    #[error(";; no servers could be reached")]
    NoServer(#[source] NetError),
}

impl Failure {
    /// The exit code: curl's for transfers, dig's for look-ups.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Serve(_) | Self::Answer(_) => 1,
            Self::Usage(_) => 2,
            Self::Resolve { .. } => 6,
            Self::Connect { .. } => 7,
            Self::NoServer(_) => 9,
            Self::Status(_) => 22,
            Self::Output(_) => 23,
            Self::TimedOut(_) => 28,
            Self::Transfer(_) | Self::Datagram(_) => 56,
        }
    }

    /// The failure and its causes in one line.
    pub(crate) fn explanation(&self) -> String {
        let mut line = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            // Writing to a String cannot fail.
            let _ = write!(line, ": {error}");
            cause = error.source();
        }
        line
    }

    /// Failing to connect to `to`; the kernel's own time-out is one of ours.
    pub(crate) fn connect(to: &impl ToString, source: io::Error, waited: Duration) -> Self {
        if source.kind() == io::ErrorKind::TimedOut {
            Self::TimedOut(waited)
        } else {
            Self::Connect { to: to.to_string(), source }
        }
    }
}

/// The code as dig spells it.
fn spelled(code: ResponseCode) -> String {
    let known = NAMES.into_iter().find(|(named, _)| *named == code);
    known.map_or_else(|| format!("RCODE{}", u16::from(code)), |(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken() -> io::Error {
        io::Error::from(io::ErrorKind::ConnectionRefused)
    }

    #[test]
    fn exit_codes_are_those_of_curl_and_dig() {
        let resolve = Failure::Resolve { host: "a".to_owned(), source: broken() };
        assert_eq!(resolve.code(), 6);
        assert_eq!(Failure::connect(&"a:1", broken(), Duration::ZERO).code(), 7);
        assert_eq!(Failure::NoServer(NetError::Timeout).code(), 9);
        assert_eq!(Failure::Status(StatusCode::NOT_FOUND).code(), 22);
        assert_eq!(Failure::Output(broken()).code(), 23);
        assert_eq!(Failure::TimedOut(Duration::ZERO).code(), 28);
        assert_eq!(Failure::Answer(ResponseCode::NXDomain).code(), 1);
    }

    #[test]
    fn a_connection_that_the_kernel_gave_up_is_a_time_out() {
        let gave_up = io::Error::from(io::ErrorKind::TimedOut);
        assert_eq!(Failure::connect(&"a:1", gave_up, Duration::from_secs(2)).code(), 28);
    }

    #[test]
    fn an_explanation_is_one_line_with_its_cause() {
        let failure = Failure::connect(&"10.0.0.1:80", broken(), Duration::ZERO);
        assert_eq!(failure.explanation(), "failed to connect to 10.0.0.1:80: connection refused");
        assert_eq!(Failure::Answer(ResponseCode::NXDomain).explanation(), ";; status: NXDOMAIN");
    }
}
