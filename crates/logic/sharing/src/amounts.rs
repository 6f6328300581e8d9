//! Amounts of several resources at once.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use crate::quantity::{NoQuantity, Quantity};

/// The resource of processor time.
pub const CPU: &str = "cpu";
/// The resource of memory.
pub const MEMORY: &str = "memory";

/// How much there is of each resource, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<Box<str>, Quantity>);

impl Amounts {
    /// The amounts of a list of Kubernetes; what does not read as a quantity is named.
    pub fn read(list: &BTreeMap<String, Text>) -> Result<Self, NoQuantity> {
        let amounts =
            list.iter().map(|(name, text)| Ok((name.as_str().into(), Quantity::try_from(text)?)));
        amounts.collect::<Result<_, _>>().map(Self)
    }

    /// The same, without what does not read as a quantity: one bad value of one pod must not hide
    /// a cluster.
    pub fn readable(list: Option<&BTreeMap<String, Text>>) -> Self {
        let amounts = list.into_iter().flatten().filter_map(|(name, text)| {
            Some((name.as_str().into(), Quantity::try_from(text).ok()?))
        });
        Self(amounts.collect())
    }

    /// The amounts as Kubernetes lists them.
    pub fn list(&self) -> BTreeMap<String, Text> {
        self.0.iter().map(|(name, amount)| (name.to_string(), (*amount).into())).collect()
    }

    /// The amount of a resource; nothing of one that is not there.
    pub fn of(&self, name: &str) -> Quantity {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Whether there is no resource at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each resource with its amount, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_ref(), *amount))
    }

    /// States the amount of a resource.
    pub fn set(&mut self, name: &str, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    /// Adds others.
    pub fn add(&mut self, others: &Self) {
        for (name, amount) in others.iter() {
            match self.0.get_mut(name) {
                Some(sum) => *sum = sum.plus(amount),
                None => self.set(name, amount),
            }
        }
    }

    /// Takes others away; what is not there becomes negative.
    pub fn take(&mut self, others: &Self) {
        for (name, amount) in others.iter() {
            let left = self.of(name).minus(amount);
            self.set(name, left);
        }
    }

    /// Takes at least so much of each.
    pub fn raise(&mut self, others: &Self) {
        for (name, amount) in others.iter() {
            let most = self.0.get(name).map_or(amount, |sum| (*sum).max(amount));
            self.set(name, most);
        }
    }

    /// Whether any amount differs from an earlier one by more than a percentage of that, or other
    /// resources are there.
    pub fn differ(&self, earlier: &Self, percentage: u8) -> bool {
        !self.0.keys().eq(earlier.0.keys())
            || self.iter().any(|(name, amount)| amount.differs(earlier.of(name), percentage))
    }

    /// The part of each that is to be shared.
    ///
    /// Processor time is counted in thousandths, memory in millions of bytes, everything else in
    /// ones; each is rounded up before and down after. Devices (resources with a `/` in their
    /// name) are shared whole: as long as one is free and a share is wanted, it is offered.
    #[must_use]
    pub fn share(&self, percentage: u8) -> Self {
        let one = Quantity::units(1);
        let share = |name: &str, amount: Quantity| match name {
            CPU => amount.share(percentage, Quantity::millis(1)),
            MEMORY => amount.share(percentage, Quantity::units(1_000_000)),
            device if device.contains('/') && percentage > 0 && amount >= one => {
                amount.share(percentage, one).max(one)
            }
            _ => amount.share(percentage, one),
        };
        Self(self.0.iter().map(|(name, amount)| (name.clone(), share(name, *amount))).collect())
    }
}

impl<'a> FromIterator<(&'a str, Quantity)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (&'a str, Quantity)>>(amounts: I) -> Self {
        Self(amounts.into_iter().map(|(name, amount)| (name.into(), amount)).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shares_are_those_that_a_peer_computes() {
        let whole = amounts(&[
            ("cpu", "2"),
            ("ephemeral-storage", "243497861120"),
            ("hugepages-2Mi", "0"),
            ("memory", "24577936Ki"),
            ("pods", "250"),
        ]);
        let share = whole.share(90);
        let text = |name| share.of(name).to_string();
        assert_eq!(text("cpu"), "1800m");
        assert_eq!(text("ephemeral-storage"), "219148075008");
        assert_eq!(text("memory"), "22651000000");
        assert_eq!(text("pods"), "225");
        assert_eq!(text("hugepages-2Mi"), "0");
    }

    #[test]
    fn the_last_device_is_shared_whole() {
        let gpus = |count: &str| amounts(&[("example.com/gpu", count)]);
        let share = |count, percentage| gpus(count).share(percentage).of("example.com/gpu");
        assert_eq!(share("1", 30), Quantity::units(1));
        assert_eq!(share("10", 35), Quantity::units(3));
        assert_eq!(share("0", 90), Quantity::ZERO);
        assert_eq!(share("4", 0), Quantity::ZERO);
    }

    #[test]
    fn small_changes_do_not_count() {
        let old = amounts(&[("cpu", "100"), ("memory", "1000M")]);
        assert!(!amounts(&[("cpu", "95"), ("memory", "1050M")]).differ(&old, 5));
        assert!(amounts(&[("cpu", "94"), ("memory", "1000M")]).differ(&old, 5));
        assert!(amounts(&[("cpu", "100")]).differ(&old, 100));
        assert!(!old.differ(&old, 0));
    }

    #[test]
    fn one_bad_value_hides_nothing_else() {
        let list = BTreeMap::from([("cpu", "much"), ("memory", "1Gi")].map(text));
        assert!(Amounts::read(&list).is_err());
        assert_eq!(Amounts::readable(Some(&list)), amounts(&[("memory", "1Gi")]));
    }

    proptest! {
        #[test]
        fn sums_are_taken_apart_again(a in any_amounts(), b in any_amounts()) {
            let mut sum = a.clone();
            sum.add(&b);
            sum.take(&b);
            for (name, amount) in a.iter() {
                prop_assert_eq!(sum.of(name), amount);
            }
        }

        #[test]
        fn a_larger_share_is_never_less(a in any_amounts(), p in 0_u8..100) {
            let (small, large) = (a.share(p), a.share(p + 1));
            prop_assert!(small.iter().all(|(name, amount)| amount <= large.of(name)));
        }

        #[test]
        fn lists_read_back(a in any_amounts()) {
            prop_assert_eq!(Amounts::read(&a.list()), Ok(a));
        }
    }

    fn any_amounts() -> impl Strategy<Value = Amounts> {
        let name = prop::sample::select(vec!["cpu", "memory", "pods", "example.com/gpu"]);
        let amount = (0_i128..1 << 50).prop_map(Quantity::millis);
        prop::collection::btree_map(name, amount, 0..4).prop_map(|map| map.into_iter().collect())
    }

    fn text((name, text): (&str, &str)) -> (String, Text) {
        (name.to_owned(), Text(text.to_owned()))
    }

    fn amounts(pairs: &[(&str, &str)]) -> Amounts {
        pairs.iter().map(|(name, text)| (*name, text.parse().unwrap())).collect()
    }
}
