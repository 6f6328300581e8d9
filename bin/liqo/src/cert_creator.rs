//! Makes the certificate of a server that peers or the API server call, before it starts.

use std::path::PathBuf;
use std::process::ExitCode;

use liqo_kit::tls;
use time::OffsetDateTime;

/// Makes a certificate that vouches for itself, unless there is one that lasts
#[derive(clap::Args)]
pub struct Args {
    /// Where the private key goes
    #[arg(long, value_name = "FILE")]
    key_path: PathBuf,

    /// Where the certificate goes
    #[arg(long, value_name = "FILE")]
    cert_path: PathBuf,
}

#[expect(clippy::print_stderr, reason = "this step is over before logs are worth their setting up")]
pub fn run(args: &Args) -> ExitCode {
    let Args { key_path, cert_path } = args;
    match tls::ensure(cert_path, key_path, OffsetDateTime::now_utc()) {
        Ok(true) => eprintln!("made {}", cert_path.display()),
        Ok(false) => eprintln!("{} is good as it is", cert_path.display()),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            eprintln!("{error}{}", cause.unwrap_or_default());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
