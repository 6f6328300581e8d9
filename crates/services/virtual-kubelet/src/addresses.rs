//! What addresses of one cluster are called in the other.
//!
//! This is where the network comes in. Whoever reflects an object with addresses *holds* them for
//! as long as there is the object; what nobody holds any more is given back.

mod ipam;
pub(crate) mod leftovers;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use liqo_kit::keyed::chain;
use liqo_kit::retry::{Failure, Retry};
use liqo_kit::watch::Key;
use liqo_reflection::Translated;
use tracing::warn;

pub use self::ipam::{Ipam, NoServer};

/// When to ask again who did not know: there is no other way to notice that it knows.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(2);

/// Who translates.
#[derive(Clone, Debug)]
pub enum Translator {
    /// Addresses mean the same on both sides.
    Same,
    /// Addresses of one side mean nothing on the other, and are not told.
    Hidden,
    /// The network manager knows what addresses are called.
    Asked {
        /// How it is asked.
        ipam: Box<Ipam>,
        /// Whether addresses of pods and endpoints are not told all the same.
        hides: bool,
    },
}

/// An address cannot be translated.
#[derive(Debug, thiserror::Error)]
#[error("cannot translate the address {address}")]
pub struct Error {
    address: IpAddr,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl Error {
    fn new(address: IpAddr, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { address, source: source.into() }
    }
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        Retry::After(ASK_AGAIN)
    }

    fn reason(&self) -> &'static str {
        "NotTranslated"
    }
}

impl Translator {
    /// What an endpoint reachable from here is called there; networks are connected over IPv4 only,
    /// so other addresses stay what they are.
    pub async fn map_endpoint(&self, address: IpAddr) -> Result<IpAddr, Error> {
        match self {
            Self::Asked { ipam, .. } if address.is_ipv4() => ipam.map_endpoint(address).await,
            Self::Same | Self::Hidden | Self::Asked { .. } => Ok(address),
        }
    }

    /// Gives back what an endpoint was called there.
    pub async fn unmap_endpoint(&self, address: IpAddr) -> Result<(), Error> {
        match self {
            Self::Asked { ipam, .. } if address.is_ipv4() => ipam.unmap_endpoint(address).await,
            Self::Same | Self::Hidden | Self::Asked { .. } => Ok(()),
        }
    }

    /// What a pod of the other cluster is called here; nothing when that is not told.
    pub async fn home_pod(&self, address: IpAddr) -> Result<Option<IpAddr>, Error> {
        match self {
            Self::Same => Ok(Some(address)),
            Self::Asked { ipam, hides: false } if address.is_ipv4() => {
                ipam.home_pod(address).await.map(Some)
            }
            Self::Hidden | Self::Asked { .. } => Ok(None),
        }
    }

    /// Whether endpoints of this cluster can be reached from the other one.
    pub fn tells_endpoints(&self) -> bool {
        match self {
            Self::Same => true,
            Self::Hidden => false,
            Self::Asked { hides, .. } => !hides,
        }
    }
}

/// Who needs an address: a kind, and an object of it.
pub type Holder = (&'static str, Key);

/// The addresses in use, and by whom.
pub struct Addresses {
    /// Who translates.
    pub translator: Translator,
    ledger: Mutex<Ledger>,
    /// One at a time: what one gives back, another may be about to ask for.
    turn: tokio::sync::Mutex<()>,
}

impl Addresses {
    /// No addresses yet.
    pub fn new(translator: Translator) -> Self {
        Self { translator, ledger: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Translates what an object needs, and gives back what it does not need any more.
    ///
    /// What cannot be given back now does not hold up the object: it is tried again with the next.
    pub async fn hold(&self, holder: &Holder, wanted: &[IpAddr]) -> Result<Translated, Error> {
        if wanted.is_empty() && !self.ledger().held.contains_key(holder) {
            return Ok(Translated::new());
        }
        let _turn = self.turn.lock().await;
        let known = self.ledger().known();
        let mut translated = Translated::new();
        for address in wanted {
            let there = match known.get(address) {
                Some(there) => *there,
                None => self.translator.map_endpoint(*address).await?,
            };
            translated.insert(*address, there);
        }
        self.ledger().note(holder, translated.clone());
        if let Err(error) = self.unmap().await {
            warn!(error = chain(&error), "Address not given back yet");
        }
        Ok(translated)
    }

    /// Gives back what an object needed.
    pub async fn release(&self, holder: &Holder) -> Result<(), Error> {
        self.ledger().note(holder, Translated::new());
        self.give_back().await
    }

    /// Lets go of what all objects of a namespace needed; [`Addresses::give_back`] does the rest.
    pub fn let_go(&self, namespace: &str) {
        self.ledger().let_go(namespace);
    }

    /// Gives back what nobody needs any more.
    pub async fn give_back(&self) -> Result<(), Error> {
        if self.ledger().leaving.is_empty() {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        self.unmap().await
    }

    /// Notes that some addresses are to be given back, unless somebody holds them.
    fn leave(&self, addresses: BTreeSet<IpAddr>) {
        self.ledger().leave(addresses);
    }

    async fn unmap(&self) -> Result<(), Error> {
        let leaving = self.ledger().leaving.clone();
        for address in leaving {
            self.translator.unmap_endpoint(address).await?;
            self.ledger().leaving.remove(&address);
        }
        Ok(())
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who holds what, and what has to be given back.
#[derive(Debug, Default)]
struct Ledger {
    held: BTreeMap<Holder, Translated>,
    leaving: BTreeSet<IpAddr>,
}

impl Ledger {
    fn known(&self) -> Translated {
        self.held.values().flatten().map(|(here, there)| (*here, *there)).collect()
    }

    /// Notes what an object holds now; what nobody holds any more leaves.
    fn note(&mut self, holder: &Holder, now: Translated) {
        for address in now.keys() {
            self.leaving.remove(address);
        }
        let before = if now.is_empty() {
            self.held.remove(holder)
        } else {
            self.held.insert(holder.clone(), now)
        };
        self.leave(before.into_iter().flat_map(BTreeMap::into_keys).collect());
    }

    /// Notes that no object of a namespace holds anything.
    fn let_go(&mut self, namespace: &str) {
        let is_there = |holder: &Holder| holder.1.namespace.as_deref() == Some(namespace);
        let (gone, held): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.held).into_iter().partition(|(holder, _)| is_there(holder));
        self.held = held;
        self.leave(gone.into_values().flat_map(BTreeMap::into_keys).collect());
    }

    fn leave(&mut self, mut addresses: BTreeSet<IpAddr>) {
        let needed: BTreeSet<&IpAddr> = self.held.values().flat_map(BTreeMap::keys).collect();
        addresses.retain(|address| !needed.contains(address));
        self.leaving.append(&mut addresses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_given_back_when_its_last_holder_lets_go() {
        let (mut ledger, [a, b]) = (Ledger::default(), two());
        ledger.note(&holder("shop", "one"), same(&[a, b]));
        ledger.note(&holder("shop", "two"), same(&[b]));
        assert!(leaving(&ledger).is_empty());
        ledger.note(&holder("shop", "one"), same(&[]));
        assert_eq!(leaving(&ledger), [a]);
        ledger.note(&holder("shop", "two"), same(&[a]));
        assert_eq!(leaving(&ledger), [b], "somebody needs it again");
        assert_eq!(ledger.known(), same(&[a]));
    }

    #[test]
    fn a_namespace_lets_go_of_all_it_held() {
        let (mut ledger, [a, b]) = (Ledger::default(), two());
        ledger.note(&holder("shop", "one"), same(&[a, b]));
        ledger.note(&holder("store", "one"), same(&[b]));
        ledger.let_go("shop");
        assert_eq!(leaving(&ledger), [a]);
        assert_eq!(ledger.known(), same(&[b]));
    }

    #[tokio::test]
    async fn what_was_given_back_is_not_given_back_again() {
        let (addresses, [a, b]) = (Addresses::new(Translator::Same), two());
        let holder = holder("shop", "one");
        assert_eq!(addresses.hold(&holder, &[a, b]).await.unwrap(), same(&[a, b]));
        assert_eq!(addresses.hold(&holder, &[a]).await.unwrap(), same(&[a]));
        assert!(leaving(&addresses.ledger()).is_empty());
        addresses.release(&holder).await.unwrap();
        assert!(addresses.ledger().held.is_empty() && addresses.ledger().leaving.is_empty());
    }

    fn leaving(ledger: &Ledger) -> Vec<IpAddr> {
        ledger.leaving.iter().copied().collect()
    }

    fn two() -> [IpAddr; 2] {
        ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap())
    }

    fn same(list: &[IpAddr]) -> Translated {
        list.iter().map(|one| (*one, *one)).collect()
    }

    fn holder(namespace: &str, name: &str) -> Holder {
        ("EndpointSlice", Key::namespaced(namespace, name))
    }
}
