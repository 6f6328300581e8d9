//! The packet filter, through its own tool: one table, replaced at once, read back as text.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Write as _};
use std::process::{Command, Output, Stdio};
use std::sync::PoisonError;

use liqo_fabric::nat::{TABLE, listed};
use liqo_fabric::state::Filter;

use crate::error::Error;
use crate::kernel::Kernel;

/// What was loaded, and how the kernel listed it then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    digest: String,
    listing: String,
}

impl Kernel {
    /// The table, if there is one; one that somebody has changed is told from what we made.
    pub(crate) async fn filter(&self) -> Result<Option<Filter>, Error> {
        let Some(listing) = self.listing().await? else { return Ok(None) };
        let nobodys =
            Filter { flows: BTreeSet::new(), digest: String::new(), script: String::new() };
        let mut filter = listed(&listing).unwrap_or(nobodys);
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let as_written = Written { digest: filter.digest.clone(), listing };
        if written.as_ref() != Some(&as_written) {
            // Somebody changed it, or an earlier process made it: nobody knows what it holds.
            filter.digest.clear();
        }
        Ok(Some(filter))
    }

    /// Replaces the table at once.
    pub(crate) async fn load_filter(&self, filter: &Filter) -> Result<(), Error> {
        self.nft("load its table", &["-f", "-"], Some(filter.script.clone())).await?;
        let listing = self.listing().await?.unwrap_or_default();
        let written = Written { digest: filter.digest.clone(), listing };
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(written);
        Ok(())
    }

    pub(crate) async fn remove_filter(&self) -> Result<(), Error> {
        self.nft("remove its table", &["delete", "table", "ip", TABLE], None).await.map(drop)
    }

    async fn listing(&self) -> Result<Option<String>, Error> {
        match self.nft("list its table", &["-s", "list", "table", "ip", TABLE], None).await {
            Ok(listing) => Ok(Some(listing)),
            // That is how nft says that there is none.
            Err(Error::Nft { message, .. }) if message.contains("No such file or directory") => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn nft(
        &self,
        action: &'static str,
        words: &'static [&'static str],
        input: Option<String>,
    ) -> Result<String, Error> {
        let output = self.namespace.run(move || run(words, input.as_deref())).await?;
        let output = output.map_err(|source| {
            let is_missing = source.kind() == ErrorKind::NotFound;
            if is_missing { Error::NoNft } else { Error::kernel("run nft", source) }
        })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let message = text(&output.stderr);
        if message.contains("Operation not permitted") {
            return Err(Error::Forbidden { action: format!("have nft {action}") });
        }
        Err(Error::Nft { action, message: message.trim().to_owned() })
    }
}

fn run(words: &[&str], input: Option<&str>) -> io::Result<Output> {
    let mut child = Command::new("nft")
        .args(words)
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        match stdin.write_all(input.as_bytes()) {
            // It has already said no.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            result => result?,
        }
    }
    child.wait_with_output()
}
