//! The packet filter, through its own tool: one table, replaced at once, read back as text.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Write as _};
use std::process::{Command, Output, Stdio};
use std::sync::{MutexGuard, PoisonError};

use liqo_fabric::nat::{TABLE, listed};
use liqo_fabric::state::Filter;

use crate::error::Error;
use crate::kernel::Kernel;
use crate::netfilter::{REQUEST, ask};

/// "Which generation is this?", of the packet filter's subsystem.
const GENERATION: u16 = (10 << 8) | 16;
/// The number of a generation.
const NUMBER: u16 = 1;

/// What is known of the table.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// What was loaded: its digest, and how the kernel listed it then.
    written: Option<(String, String)>,
    /// What was seen last, and in which generation of all tables that was.
    seen: Option<(u32, Option<Filter>)>,
    /// Whether the table is believed to hold what it says it was made from.
    trusts: bool,
}

impl Kernel {
    /// Believes the table: for those who only look, and have made none themselves.
    #[must_use]
    pub fn trusting(self) -> Self {
        self.known().trusts = true;
        self
    }

    /// The table, if there is one; one that somebody has changed is told from what we made.
    ///
    /// Listing a table costs a process, so it is only done when any table has changed.
    pub(crate) async fn filter(&self) -> Result<Option<Filter>, Error> {
        let generation = self.generation().await;
        if let (Some(now), Some((seen, filter))) = (generation, &self.known().seen)
            && now == *seen
        {
            return Ok(filter.clone());
        }
        let listing = self.listing().await?;
        Ok(self.note(generation, listing.as_deref()))
    }

    /// Replaces the table at once.
    pub(crate) async fn load_filter(&self, filter: &Filter) -> Result<(), Error> {
        self.nft("load its table", &["-f", "-"], Some(filter.script.clone())).await?;
        let generation = self.generation().await;
        let listing = self.listing().await?.unwrap_or_default();
        self.known().written = Some((filter.digest.clone(), listing.clone()));
        self.note(generation, Some(&listing));
        Ok(())
    }

    /// Remembers how the kernel lists the table.
    ///
    /// Whoever changes it while it is listed makes another generation, so that it is listed again.
    fn note(&self, generation: Option<u32>, listing: Option<&str>) -> Option<Filter> {
        let nobodys =
            || Filter { flows: BTreeSet::new(), digest: String::new(), script: String::new() };
        let mut known = self.known();
        let filter = listing.map(|listing| {
            let mut filter = listed(listing).unwrap_or_else(nobodys);
            let written = known.written.as_ref();
            let is_other =
                written.is_none_or(|(digest, text)| *digest != filter.digest || text != listing);
            if is_other && !known.trusts {
                // Somebody changed it, or an earlier process made it: nobody knows what it holds.
                filter.digest.clear();
            }
            filter
        });
        known.seen = generation.map(|generation| (generation, filter.clone()));
        filter
    }

    /// The number of changes that were ever made to any table; nothing when the kernel does not say.
    async fn generation(&self) -> Option<u32> {
        let answer = self.namespace.run(|| ask(GENERATION, REQUEST, &[])).await.ok()?.ok()?;
        let number = answer.into_iter().find(|(kind, _)| *kind == NUMBER)?.1;
        Some(u32::from_be_bytes(number.try_into().ok()?))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
