//! The command line of the three components of the network, as other versions write it: one program
//! that is told by `--run-as` which of them it is.

/// The program that is three.
const PROGRAM: &str = "liqonet";

/// The flag that says which.
const ROLE: &str = "run-as";

/// Which one it is when nobody says.
const DEFAULT_ROLE: &str = "liqo-gateway";

/// What stands before the names of components.
const PREFIX: &str = "liqo-";

/// Turns `liqonet --run-as=liqo-network-manager …` into `liqo network-manager …`, and leaves other
/// command lines as they are, except that a component may be told what it is.
pub fn resolved(mut words: Vec<String>) -> Vec<String> {
    let is_named = |word: Option<&String>| {
        word.is_some_and(|word| word.rsplit('/').next().unwrap_or_default() == PROGRAM)
    };
    let by_program = is_named(words.first());
    let by_subcommand = words.get(1).is_some_and(|word| word == PROGRAM);
    let role = take_role(&mut words);
    let by_role = role.is_some() && words.get(1).is_none_or(|word| word.starts_with('-'));
    if by_program || by_subcommand || by_role {
        let role = role.unwrap_or_else(|| DEFAULT_ROLE.to_owned());
        let component = role.strip_prefix(PREFIX).unwrap_or(&role).to_owned();
        if by_subcommand {
            words.remove(1);
        }
        words.insert(1, component);
    }
    words
}

/// Takes the flag out, with its value.
fn take_role(words: &mut Vec<String>) -> Option<String> {
    let is_flag = |word: &String| {
        let name = word.trim_start_matches('-').split('=').next();
        word.starts_with("--") && name == Some(ROLE)
    };
    let place = words.iter().take_while(|word| *word != "--").position(is_flag)?;
    let flag = words.remove(place);
    match flag.split_once('=') {
        Some((_, role)) => Some(role.to_owned()),
        None => (place < words.len()).then(|| words.remove(place)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_becomes_a_component() {
        for (line, want) in [
            ("liqonet --run-as=liqo-network-manager --v=4", "liqonet network-manager --v=4"),
            ("/usr/bin/liqonet --v=4 --run-as liqo-route", "/usr/bin/liqonet route --v=4"),
            ("liqo liqonet --run-as=liqo-network-manager -v=4", "liqo network-manager -v=4"),
            ("liqo liqonet", "liqo gateway"),
            ("liqo --run-as=liqo-gateway --gateway.mtu=1", "liqo gateway --gateway.mtu=1"),
            ("liqo network-manager --run-as=liqo-network-manager", "liqo network-manager"),
            ("liqo auth --address=:5000", "liqo auth --address=:5000"),
            ("liqo", "liqo"),
        ] {
            let words = line.split(' ').map(str::to_owned).collect();
            assert_eq!(resolved(words).join(" "), want);
        }
    }
}
