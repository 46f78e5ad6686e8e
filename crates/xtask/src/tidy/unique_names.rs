//! Names that are used once: a type in the workspace, a file stem in its crate.

use super::TidyFile;
use super::names::defined_type;
use std::collections::BTreeMap;

/// A domain type and its wire form may share a name.
const MOST_TYPES_OF_A_NAME: usize = 2;

/// Names that Rust's traits prescribe for associated types.
const TRAIT_TYPES: [&str; 5] = ["Value", "Item", "Error", "Target", "Output"];

/// Stems that Cargo and the module system prescribe.
const COMMON_STEMS: [&str; 4] = ["lib", "main", "mod", "tests"];

pub(crate) fn check_types(sources: &[TidyFile]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_product(source)) {
        for (number, line) in source.split().0.lines().enumerate() {
            let code = line.trim_start();
            if let Some(name) = defined_type(code).filter(|_| !code.starts_with("//"))
                && !TRAIT_TYPES.contains(&name)
            {
                let place = format!("{}:{}", source.path, number + 1);
                places.entry(name).or_default().push(place);
            }
        }
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > MOST_TYPES_OF_A_NAME);
    shared
        .map(|(name, places)| {
            format!("{}: `{name}` names {} types", places.join(", "), places.len())
        })
        .collect()
}

pub(crate) fn check_stems(sources: &[TidyFile]) -> Vec<String> {
    let mut places: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_product(source)) {
        let Some((name, path)) =
            source.path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'))
        else {
            continue;
        };
        let file = path.rsplit('/').next().unwrap_or(path);
        let stem = file.strip_suffix(".rs").unwrap_or(file);
        if !COMMON_STEMS.contains(&stem) {
            places.entry((name, stem)).or_default().push(&source.path);
        }
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    shared
        .map(|((_, stem), places)| format!("{}: two files named `{stem}`", places.join(", ")))
        .collect()
}

fn is_product(source: &TidyFile) -> bool {
    source.is_rust() && source.path.contains("/src/") && !source.is_test()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TidyFile {
        TidyFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_third_type_of_a_name_and_a_second_file_of_a_stem_are_reported() {
        let place = "struct Place;\n// struct Place\n";
        let files = [
            file("crates/a/src/x.rs", place),
            file("crates/a/src/y/x.rs", place),
            file("crates/b/src/x.rs", "type Item = u8;\nenum Place {}\n"),
            file("crates/b/tests/it/x.rs", place),
            file("crates/b/src/mod.rs", "#[cfg(test)]\nmod tests {\n    struct Place;\n}\n"),
        ];
        assert_eq!(
            check_types(&files),
            [
                "crates/a/src/x.rs:1, crates/a/src/y/x.rs:1, crates/b/src/x.rs:2: `Place` names 3 types"
            ]
        );
        assert_eq!(check_types(&files[1..]), [""; 0]);
        assert_eq!(
            check_stems(&files),
            ["crates/a/src/x.rs, crates/a/src/y/x.rs: two files named `x`"]
        );
    }
}
