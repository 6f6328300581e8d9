//! Makes up names for clusters that were given none.

const ADJECTIVES: [&str; 48] = [
    "amber", "ancient", "bold", "brave", "bright", "calm", "clear", "clever", "cool", "crisp",
    "curious", "daring", "deep", "eager", "early", "fair", "fast", "fresh", "gentle", "golden",
    "grand", "green", "happy", "honest", "humble", "jolly", "keen", "kind", "light", "lively",
    "lucky", "merry", "noble", "patient", "proud", "quick", "quiet", "rapid", "silent", "silver",
    "smart", "steady", "sunny", "swift", "tidy", "warm", "wild", "wise",
];

const NOUNS: [&str; 48] = [
    "acorn", "badger", "bay", "beach", "birch", "breeze", "brook", "canyon", "cedar", "cloud",
    "comet", "coral", "creek", "delta", "dune", "falcon", "fern", "field", "fjord", "forest",
    "fox", "garden", "glade", "harbor", "heron", "hill", "island", "lagoon", "lake", "maple",
    "meadow", "moon", "moss", "oak", "ocean", "otter", "owl", "peak", "pine", "pond", "reef",
    "river", "shore", "sparrow", "star", "summit", "valley", "willow",
];

/// The name that a random number stands for: an adjective and a noun.
pub fn generate(random: u64) -> String {
    let (adjectives, nouns) = (ADJECTIVES.len() as u64, NOUNS.len() as u64);
    let pick = |words: &[&'static str], at: u64| {
        usize::try_from(at).ok().and_then(|at| words.get(at).copied()).unwrap_or_default()
    };
    let adjective = pick(&ADJECTIVES, random % adjectives);
    let noun = pick(&NOUNS, random / adjectives % nouns);
    format!("{adjective}-{noun}")
}

#[cfg(test)]
mod tests {
    use liqo_api::names::ClusterName;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_have_different_names() {
        assert_eq!(generate(0), "amber-acorn");
        assert_eq!(generate(1), "ancient-acorn");
        assert_eq!(generate(48), "amber-badger");
    }

    proptest! {
        #[test]
        fn every_number_stands_for_a_valid_name(random: u64) {
            prop_assert!(generate(random).parse::<ClusterName>().is_ok());
        }
    }
}
