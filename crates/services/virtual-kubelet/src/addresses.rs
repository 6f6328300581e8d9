//! What addresses of one cluster are called in the other.
//!
//! This is where the network comes in. Whoever reflects an object with addresses *holds* them for
//! as long as there is the object; what nobody holds any more is given back.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use liqo_kit::retry::{Failure, Retry};
use liqo_kit::watch::Key;
use liqo_reflection::Translated;

/// Who translates.
#[derive(Clone, Debug)]
pub enum Translator {
    /// Addresses mean the same on both sides.
    Same,
    /// Addresses of one side mean nothing on the other, and are not told.
    Hidden,
}

/// An address cannot be translated.
#[derive(Debug, thiserror::Error)]
#[error("cannot translate the address {address}")]
pub struct Error {
    address: IpAddr,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl Failure for Error {
    fn retry(&self) -> Retry {
        Retry::Soon
    }

    fn reason(&self) -> &'static str {
        "NotTranslated"
    }
}

impl Translator {
    /// What an endpoint reachable from here is called there.
    #[expect(
        clippy::unused_async,
        reason = "a translator over the network is asked and waited for"
    )]
    pub async fn map_endpoint(&self, address: IpAddr) -> Result<IpAddr, Error> {
        match self {
            Self::Same | Self::Hidden => Ok(address),
        }
    }

    /// Gives back what an endpoint was called there.
    #[expect(
        clippy::unused_async,
        reason = "a translator over the network is asked and waited for"
    )]
    pub async fn unmap_endpoint(&self, _: IpAddr) -> Result<(), Error> {
        match self {
            Self::Same | Self::Hidden => Ok(()),
        }
    }

    /// What a pod of the other cluster is called here; nothing when that is not told.
    #[expect(
        clippy::unused_async,
        reason = "a translator over the network is asked and waited for"
    )]
    pub async fn home_pod(&self, address: IpAddr) -> Result<Option<IpAddr>, Error> {
        match self {
            Self::Same => Ok(Some(address)),
            Self::Hidden => Ok(None),
        }
    }

    /// Whether endpoints of this cluster can be reached from the other one.
    pub fn tells_endpoints(&self) -> bool {
        match self {
            Self::Same => true,
            Self::Hidden => false,
        }
    }
}

/// Who needs an address: a kind, and an object of it.
pub type Holder = (&'static str, Key);

/// The addresses in use, and by whom.
pub struct Addresses {
    /// Who translates.
    pub translator: Translator,
    held: Mutex<BTreeMap<Holder, Translated>>,
}

impl Addresses {
    /// No addresses yet.
    pub fn new(translator: Translator) -> Self {
        Self { translator, held: Mutex::default() }
    }

    /// Translates what an object needs, and gives back what it does not need any more.
    pub async fn hold(&self, holder: &Holder, wanted: &[IpAddr]) -> Result<Translated, Error> {
        let known = self.known();
        let mut translated = Translated::new();
        for address in wanted {
            let there = match known.get(address) {
                Some(there) => *there,
                None => self.translator.map_endpoint(*address).await?,
            };
            translated.insert(*address, there);
        }
        for address in self.note(holder, translated.clone()) {
            self.translator.unmap_endpoint(address).await?;
        }
        Ok(translated)
    }

    /// Gives back what an object needed.
    pub async fn release(&self, holder: &Holder) -> Result<(), Error> {
        self.hold(holder, &[]).await.map(drop)
    }

    fn known(&self) -> Translated {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.values().flatten().map(|(here, there)| (*here, *there)).collect()
    }

    /// Notes what an object holds now; what nobody holds any more is returned.
    fn note(&self, holder: &Holder, now: Translated) -> Vec<IpAddr> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let before =
            if now.is_empty() { held.remove(holder) } else { held.insert(holder.clone(), now) };
        let Some(before) = before else { return Vec::new() };
        let needed: BTreeSet<&IpAddr> = held.values().flat_map(BTreeMap::keys).collect();
        before.into_keys().filter(|address| !needed.contains(address)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_given_back_when_its_last_holder_lets_go() {
        let addresses = Addresses::new(Translator::Same);
        let same = |list: &[IpAddr]| list.iter().map(|one| (*one, *one)).collect::<Translated>();
        let [a, b] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse::<IpAddr>().unwrap());
        assert_eq!(addresses.note(&holder("one"), same(&[a, b])), [] as [IpAddr; 0]);
        assert_eq!(addresses.note(&holder("two"), same(&[b])), [] as [IpAddr; 0]);
        assert_eq!(addresses.note(&holder("one"), same(&[])), [a]);
        assert_eq!(addresses.note(&holder("two"), same(&[a])), [b]);
        assert_eq!(addresses.known(), same(&[a]));
    }

    fn holder(name: &str) -> Holder {
        ("EndpointSlice", Key::namespaced("shop", name))
    }
}
