//! The small program that examples and tests run inside pods.
//!
//! One static set of behaviours in one binary keeps the image tiny: a server that tells where it
//! runs, and the few clients that show what a pod can reach. Linked as `curl` or `dig`, it is that
//! client.

mod curl;
mod dig;
mod failure;
mod front;
mod identity;
mod server;
mod udp;
mod wait_for;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// Clients that the binary becomes when it is called by their name.
const APPLETS: [&str; 2] = ["curl", "dig"];

/// Serves, fetches and looks up: what examples and tests need inside a pod.
#[derive(Debug, Parser)]
#[command(name = "demo", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answers HTTP with where it runs and who asks.
    Serve(server::Args),
    /// Fetches an http:// URL, with curl's flags and exit codes.
    Curl(curl::Args),
    /// Asks DNS, with dig's words.
    Dig(dig::Args),
    /// Sends one datagram and prints the reply.
    Udp(udp::Args),
    /// Waits until a TCP port accepts connections.
    WaitFor(wait_for::Args),
    /// Ends TLS for one host name and passes requests on, as an Ingress controller does.
    Front(front::Args),
}

fn main() -> ExitCode {
    let Cli { command } = Cli::parse_from(spelled_out(std::env::args_os()));
    let is_silent = matches!(&command, Command::Curl(args) if args.is_silent());
    let result = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::Serve)
        .and_then(|runtime| {
            let result = runtime.block_on(run(command));
            // A look-up that hangs in the C library must not outlive --max-time.
            runtime.shutdown_background();
            result
        });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !is_silent {
                // Nobody is left to be told when stderr is closed.
                let _ = writeln!(io::stderr(), "{}", failure.explanation());
            }
            ExitCode::from(failure.code())
        }
    }
}

async fn run(command: Command) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match command {
        Command::Serve(args) => {
            drop(out);
            server::run(args).await
        }
        Command::Curl(args) => curl::run(args, &mut out).await,
        Command::Dig(args) => dig::run(args, &mut out).await,
        Command::Udp(args) => udp::run(args, &mut out).await,
        Command::WaitFor(args) => wait_for::run(args).await,
        Command::Front(args) => {
            drop(out);
            front::run(args).await
        }
    }
}

/// The arguments with the subcommand that the name of the program stands for.
fn spelled_out(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args = args.into_iter();
    let program = args.next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default();
    let applet = APPLETS.into_iter().find(|applet| OsStr::new(applet) == name);
    std::iter::once(OsString::from("demo")).chain(applet.map(OsString::from)).chain(args).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_link_called_curl_or_dig_is_that_client() {
        let spelled = |words: &[&str]| spelled_out(words.iter().map(OsString::from));
        assert_eq!(spelled(&["/usr/bin/curl", "-s", "a"]), ["demo", "curl", "-s", "a"]);
        assert_eq!(spelled(&["dig", "a"]), ["demo", "dig", "a"]);
        assert_eq!(spelled(&["/usr/bin/demo", "serve"]), ["demo", "serve"]);
    }

    #[test]
    fn subcommands_take_the_documented_shapes() {
        for line in [
            "demo serve",
            "demo serve --port 9090 --name web --udp",
            "demo curl -s -f --max-time 1.5 -o f -w %{http_code} -X PUT -d body -k http://a/b",
            "curl -sS -fH Host:x a:8080/b",
            "dig @10.0.0.10 -p 53 web.default.svc.cluster.local SRV +short +search",
            "demo udp web 8080 hello --max-time 2",
            "demo wait-for web:8080 --max-time 30",
            "demo front --port 8443 --host shop.example --to web:80",
        ] {
            let words = spelled_out(line.split(' ').map(OsString::from));
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
    }

    #[test]
    fn what_cannot_work_is_a_usage_error() {
        for line in [
            "demo",
            "curl https://a",
            "curl --max-time -1 a",
            "dig",
            "dig a +nope",
            "demo wait-for web",
            "demo serve --port 70000",
        ] {
            let words = spelled_out(line.split(' ').map(OsString::from));
            let error = Cli::try_parse_from(words).err().map(|error| error.exit_code());
            assert_eq!(error, Some(2), "{line}");
        }
    }
}
