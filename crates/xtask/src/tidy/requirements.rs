//! Checks that every implemented requirement is named by a test.

use super::TidyFile;

const CLAIMED: [&str; 131] = [
    "L1a", "L1b", "L1c", "L1d", "L2a", "L2b", "L2c", "L2d", "L2e", "L2f", "L3a", "L3b", "L3c",
    "L3d", "L3e", "L3f", "L4a", "L4b", "L4c", "L4d", "L4e", "L4f", "L5a", "L5b", "L5c", "L5d",
    "L6a", "L6b", "L6c", "L6d", "L7a", "L7b", "L7c", "L7d", "L7e", "L8a", "L8b", "L8c", "L9a",
    "L9b", "L9c", "L9d", "L10a", "L10b", "L10c", "L10d", "L11a", "L11b", "L11c", "H1a", "H1b",
    "H1c", "H1d", "H1e", "H2a", "H2b", "H2c", "H2d", "H3a", "H3b", "H3c", "H3d", "H4a", "H4b",
    "H4c", "H4d", "H4e", "D1a", "D1b", "D1c", "D1d", "D2a", "D2b", "D2c", "D2d", "D3a", "D3b",
    "D3c", "D3d", "D4a", "D4b", "D4c", "K1a", "K1b", "K1c", "K1d", "K2a", "K2b", "K2c", "K2d",
    "S1a", "S1b", "S2a", "S2b", "S3a", "S3b", "S3c", "S4a", "S4b", "S4c", "S4d", "S5a", "S5b",
    "S5c", "S6a", "S6b", "S6c", "S7a", "S7b", "S7c", "S8a", "S8b", "S8c", "U1a", "U1b", "U1c",
    "U2a", "U2b", "U2c", "V1a", "V1b", "V1c", "V1d", "V1e", "V1f", "V1g", "V1h", "V1i", "V1j",
    "V1k", "V1l",
];

pub(crate) fn check_requirements(sources: &[TidyFile]) -> Vec<String> {
    let tests = || sources.iter().filter(|source| source.is_rust()).map(|source| source.split().1);
    let is_tested = |id: &str| tests().any(|test| names_requirement(test, id));
    let untested = CLAIMED.into_iter().filter(|id| !is_tested(id));
    untested.map(|id| format!("R-{id}: no test names it")).collect()
}

fn names_requirement(test: &str, id: &str) -> bool {
    let name = format!("R-{id}");
    test.match_indices(&name)
        .any(|(at, _)| !test[at + name.len()..].starts_with(|char: char| char.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_not_the_start_of_another() {
        assert!(names_requirement("/// R-L1a: text", "L1a"));
        assert!(names_requirement("R-L1a", "L1a"));
        assert!(!names_requirement("R-L10b", "L1"));
        assert!(!names_requirement("R-L1ab", "L1a"));
    }
}
