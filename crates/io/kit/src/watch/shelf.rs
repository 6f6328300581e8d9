//! Where a store keeps its objects: whole, or packed where there may be thousands.
//!
//! Objects of one kind are mostly alike. Packed, one is what makes it different from some that came
//! before it, which is a fifth of its text and less than a tenth of what its fields take.

use std::collections::HashMap;
use std::sync::Arc;

use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Key;

/// How much is kept of objects for others to be compared with, in bytes.
const SAMPLE: usize = 16 << 10;
/// An object whose packed text is more than this part of it is one that others may be like.
const STRANGE: usize = 3;

/// How objects become bytes, and objects again.
pub struct Packing<K> {
    /// Drops what is not needed of an object.
    pub trim: fn(&mut K),
    /// The bytes of an object; nothing when it has to stay as it is.
    pub pack: fn(&K) -> Option<Vec<u8>>,
    /// The object of some bytes.
    pub unpack: fn(&[u8]) -> Option<K>,
}

impl<K: Serialize + DeserializeOwned> Packing<K> {
    /// The bytes of an object are its JSON, as far as `trim` leaves it.
    pub fn json(trim: fn(&mut K)) -> Self {
        Self {
            trim,
            pack: |object| serde_json::to_vec(object).ok(),
            unpack: |bytes| serde_json::from_slice(bytes).ok(),
        }
    }
}

/// Objects by their keys.
pub(super) struct Shelf<K> {
    objects: HashMap<Key, Kept<K>>,
    packing: Option<Packing<K>>,
    /// Texts of objects that others are compared with. More come in front: what was packed before
    /// counts from the end.
    sample: Vec<u8>,
}

/// One object.
pub(super) enum Kept<K> {
    Whole(Arc<K>),
    Packed(Box<[u8]>),
}

impl<K> Shelf<K> {
    pub(super) fn new(packing: Option<Packing<K>>) -> Self {
        Self { objects: HashMap::new(), packing, sample: Vec::new() }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.whole(self.objects.get(key)?)
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.objects.contains_key(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.objects.keys()
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = Arc<K>> {
        self.objects.values().filter_map(|kept| self.whole(kept))
    }

    pub(super) fn insert(&mut self, key: Key, object: K) {
        let kept = self.keep(object);
        self.objects.insert(key, kept);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.objects.remove(key);
        // What many objects took is given back when they are gone.
        if self.objects.len() < self.objects.capacity() / 4 {
            self.objects.shrink_to_fit();
        }
    }

    /// Takes all objects of a list in place of those there were, which are returned.
    pub(super) fn replace(&mut self, listed: HashMap<Key, Kept<K>>) -> HashMap<Key, Kept<K>> {
        std::mem::replace(&mut self.objects, listed)
    }

    /// Packs an object if that is done here.
    pub(super) fn keep(&mut self, object: K) -> Kept<K> {
        let text = self.packing.as_ref().and_then(|packing| (packing.pack)(&object));
        let packed = text.map(|text| self.pack(&text));
        // One that could not be read again would look as if it had been deleted.
        let packed = packed.filter(|packed| self.unpack(packed).is_some());
        packed.map_or_else(|| Kept::Whole(Arc::new(object)), Kept::Packed)
    }

    /// The object that something is kept of.
    pub(super) fn whole(&self, kept: &Kept<K>) -> Option<Arc<K>> {
        match kept {
            Kept::Whole(object) => Some(Arc::clone(object)),
            Kept::Packed(packed) => self.unpack(packed).map(Arc::new),
        }
    }

    fn pack(&mut self, text: &[u8]) -> Box<[u8]> {
        let packed = compress_prepend_size_with_dict(text, &self.sample);
        let is_strange = packed.len() * STRANGE > text.len();
        if !is_strange || self.sample.len() + text.len() > SAMPLE {
            return packed.into_boxed_slice();
        }
        self.sample.splice(..0, text.iter().copied());
        compress_prepend_size_with_dict(text, &self.sample).into_boxed_slice()
    }

    fn unpack(&self, packed: &[u8]) -> Option<K> {
        let text = decompress_size_prepended_with_dict(packed, &self.sample).ok()?;
        (self.packing.as_ref()?.unpack)(&text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: Packing<String> = Packing {
        trim: |_| {},
        pack: |text| (!text.is_empty()).then(|| text.clone().into_bytes()),
        unpack: |bytes| String::from_utf8(bytes.to_vec()).ok(),
    };

    proptest! {
        #[test]
        fn whatever_is_kept_is_found_again(
            texts in prop::collection::vec(("[a-c]{1,2}", words()), 0..60),
        ) {
            let (mut shelf, mut known) = (Shelf::new(Some(TEXT)), HashMap::new());
            for (name, text) in texts {
                shelf.insert(Key::cluster(&name), text.clone());
                known.insert(name, text);
            }
            for (name, text) in &known {
                prop_assert_eq!(&*shelf.get(&Key::cluster(name)).unwrap(), text);
            }
            prop_assert_eq!(shelf.objects().count(), known.len());
            prop_assert!(shelf.sample.len() <= SAMPLE);
        }
    }

    /// Texts of a few words or many.
    fn words() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec!["pod", "status", "phase", "0", "17", "\"", "ready"]);
        prop::collection::vec(word, 0..400).prop_map(|words| words.concat())
    }

    #[test]
    fn objects_that_are_alike_take_little() {
        let status: String = (0..300).map(|number| format!("{number} ")).collect();
        let mut shelf = Shelf::new(Some(TEXT));
        shelf.insert(Key::cluster("first"), format!("first {status}"));
        shelf.insert(Key::cluster("second"), format!("second {status}"));
        let Some(Kept::Packed(packed)) = shelf.objects.get(&Key::cluster("second")) else {
            panic!("not packed")
        };
        assert!(packed.len() < 50, "{}", packed.len());
    }

    #[test]
    fn what_cannot_be_packed_or_read_again_is_kept_as_it_is() {
        let mut shelf = Shelf::new(Some(TEXT));
        shelf.insert(Key::cluster("empty"), String::new());
        assert_eq!(*shelf.get(&Key::cluster("empty")).unwrap(), "");
        let mut shelf = Shelf::new(Some(Packing { unpack: |_| None, ..TEXT }));
        shelf.insert(Key::cluster("odd"), "odd".to_owned());
        assert_eq!(*shelf.get(&Key::cluster("odd")).unwrap(), "odd");
    }
}
