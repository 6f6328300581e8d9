//! The Internet checksum: one's complement sums of 16-bit words.
//!
//! Sums are taken over words in the order of this machine, which is right as long as nothing but
//! sums of the same kind is added, and turned round once, when a sum is folded.

/// A sum that is still being made. Pieces before the last one have an even length.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds bytes.
    pub(crate) fn add(self, bytes: &[u8]) -> Self {
        let mut lanes = [0u64; 8];
        let mut chunks = bytes.chunks_exact(32);
        for chunk in &mut chunks {
            for (lane, word) in lanes.iter_mut().zip(chunk.as_chunks::<4>().0) {
                *lane += u64::from(u32::from_ne_bytes(*word));
            }
        }
        let mut total = lanes.iter().sum::<u64>();
        let (words, rest) = chunks.remainder().as_chunks::<2>();
        for word in words {
            total += u64::from(u16::from_ne_bytes(*word));
        }
        if let [last] = rest {
            total += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        // A packet is at most 64 KiB, so that neither this nor the sum of a few of them overflows.
        Self(self.0 + total)
    }

    /// Adds a number in network order.
    pub(crate) fn add_u16(self, number: u16) -> Self {
        Self(self.0 + u64::from(number.to_be()))
    }

    /// The sum in 16 bits, as it is written into headers whose checksum others complete.
    pub(crate) fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::from_be(u16::try_from(sum).expect("folded to 16 bits"))
    }

    /// The checksum: the complement of the sum.
    pub(crate) fn checksum(self) -> u16 {
        !self.fold()
    }
}

/// The sum over the addresses, the protocol and the length, which TCP and UDP include.
pub(crate) fn pseudo_header(addresses: &[u8], protocol: u8, length: usize) -> Sum {
    let length = u16::try_from(length).unwrap_or(u16::MAX);
    Sum::default().add(addresses).add_u16(u16::from(protocol)).add_u16(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071, as it is written there.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from);
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).unwrap()
    }

    #[test]
    fn the_example_of_rfc_1071_sums_to_ddf2() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().add(&bytes).fold(), 0xddf2);
        assert_eq!(Sum::default().add(&bytes).checksum(), !0xddf2);
    }

    proptest! {
        #[test]
        fn sums_are_those_of_rfc_1071(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(Sum::default().add(&bytes).fold(), plain(&bytes));
        }

        #[test]
        fn pieces_sum_to_the_whole(
            words in proptest::collection::vec(any::<[u8; 2]>(), 0..100),
            tail in proptest::collection::vec(any::<u8>(), 0..99),
        ) {
            let head: Vec<u8> = words.concat();
            let whole = [head.clone(), tail.clone()].concat();
            prop_assert_eq!(Sum::default().add(&head).add(&tail).fold(), plain(&whole));
        }
    }
}
