//! Where free networks come from, and which one is next.
//!
//! A pool minus what is taken falls apart into free blocks, each as large as its alignment allows.
//! The next network comes out of the smallest block that is large enough, and of those with the
//! lowest address: large blocks stay whole for as long as possible, and the same request in the same
//! situation always has the same answer.

use ipnet::Ipv4Net;

use crate::overlap;

/// The pools of a cluster that was told nothing else, in order.
pub const DEFAULT: [&str; 3] = ["10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12"];

/// The next free network of a size, out of the first pool that has room.
pub fn next(pools: &[Ipv4Net], taken: &[Ipv4Net], length: u8) -> Option<Ipv4Net> {
    pools.iter().find_map(|pool| {
        let fits = |block: &Ipv4Net| block.prefix_len() <= length;
        let blocks = free_blocks(*pool, taken).into_iter().filter(fits);
        // The longest prefix is the smallest block; of equal ones, the first is the lowest.
        let smallest =
            blocks.reduce(
                |best, block| {
                    if block.prefix_len() > best.prefix_len() { block } else { best }
                },
            )?;
        Ipv4Net::new(smallest.network(), length).ok()
    })
}

/// What is left of a pool, as the fewest possible blocks, by address.
pub fn free_blocks(pool: Ipv4Net, taken: &[Ipv4Net]) -> Vec<Ipv4Net> {
    let within: Vec<Ipv4Net> =
        taken.iter().copied().filter(|other| overlap(*other, pool)).collect();
    if within.is_empty() {
        return vec![pool];
    }
    if within.iter().any(|other| other.contains(&pool)) {
        return vec![];
    }
    // Something within it is taken, so it is larger than a single address and has two halves.
    let halves = pool.subnets(pool.prefix_len().saturating_add(1)).into_iter().flatten();
    halves.flat_map(|half| free_blocks(half, &within)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_smallest_block_with_the_lowest_address_is_next() {
        for (taken, want) in [
            (&["10.10.0.0/16", "10.96.0.0/12"][..], "10.11.0.0/16"),
            (&["10.200.0.0/16", "10.100.0.0/16"], "10.101.0.0/16"),
            (&["10.200.0.0/16", "10.94.0.0/16"], "10.95.0.0/16"),
            (&["10.201.0.0/16", "10.95.0.0/16"], "10.94.0.0/16"),
            (&["10.200.0.0/16", "10.94.0.0/16", "10.95.0.0/16", "10.201.0.0/16"], "10.92.0.0/16"),
            (&[], "10.0.0.0/16"),
            (&["10.0.0.0/8"], "192.168.0.0/16"),
            (&["10.0.0.0/8", "192.168.4.0/24"], "172.16.0.0/16"),
            (&["0.0.0.0/1"], "192.168.0.0/16"),
        ] {
            assert_eq!(next(&defaults(), &nets(taken), 16), nets(&[want]).pop(), "{taken:?}");
        }
    }

    #[test]
    fn when_all_pools_are_taken_nothing_is_next() {
        assert_eq!(next(&defaults(), &defaults(), 16), None);
        assert_eq!(next(&defaults(), &nets(&["10.0.0.0/9"]), 8), None);
        assert_eq!(next(&[], &[], 24), None);
    }

    proptest! {
        #[test]
        fn what_is_next_is_free_and_in_a_pool(taken in prop::collection::vec(any_net(), 0..20), length in 8_u8..=30) {
            let Some(found) = next(&defaults(), &taken, length) else { return Ok(()) };
            prop_assert_eq!(found.prefix_len(), length);
            prop_assert!(defaults().iter().any(|pool| pool.contains(&found)));
            prop_assert!(!taken.iter().any(|other| overlap(*other, found)));
            prop_assert_eq!(next(&defaults(), &taken, length), Some(found), "it is the same again");
        }

        #[test]
        fn free_blocks_are_all_that_is_free(taken in prop::collection::vec(any_net(), 0..12), address: u32) {
            let pool = defaults()[0];
            let address = crate::mapped(address.into(), pool);
            let blocks = free_blocks(pool, &taken);
            let holding = blocks.iter().filter(|block| block.contains(&address)).count();
            let is_taken = taken.iter().any(|other| other.contains(&address));
            prop_assert_eq!(holding, usize::from(!is_taken));
        }
    }

    fn any_net() -> impl Strategy<Value = Ipv4Net> {
        let within_ten = any::<u32>().prop_map(|bits| (10 << 24) | (bits >> 8));
        (within_ten, 9_u8..=30)
            .prop_map(|(bits, length)| Ipv4Net::new(bits.into(), length).unwrap().trunc())
    }

    fn defaults() -> Vec<Ipv4Net> {
        nets(&DEFAULT)
    }

    fn nets(texts: &[&str]) -> Vec<Ipv4Net> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }
}
