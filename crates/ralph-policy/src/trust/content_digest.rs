//! The digests of an approval, computed from the bytes of files that are not on disk, such as those of a commit.

use super::executed_scripts::is_pattern;
use super::package_scripts::{PackageScripts, parse_package};
use super::{ReferencedContent, content_hash};
use std::borrow::Borrow;

const SCRIPT_SEPARATOR: &str = ": scripts.";
const LINK_SEPARATOR: &str = " -> ";
const SEARCH_PATH_SUFFIX: &str = "/ on PATH";

/// What the name of a [`ReferencedContent`] refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceSource<'a> {
    /// A file of the project, by its path in it.
    File(&'a str),
    /// A script of a manifest.
    Script { manifest: &'a str, script: &'a str },
    /// The names of the files that match a pattern of a command, or a file with such a name.
    Pattern(&'a str),
    /// A link that leads out of the project, or a directory on `PATH`: no file of the project has this content.
    Outside,
}

pub fn reference_source(name: &str) -> ReferenceSource<'_> {
    if let Some((manifest, script)) = name.split_once(SCRIPT_SEPARATOR) {
        return ReferenceSource::Script { manifest, script };
    }
    if name.contains(LINK_SEPARATOR) || name.ends_with(SEARCH_PATH_SUFFIX) {
        return ReferenceSource::Outside;
    }
    if is_pattern(name) {
        return ReferenceSource::Pattern(name);
    }
    ReferenceSource::File(name)
}

/// The hash that an approval would have for a pattern that matches these names.
pub fn matches_digest(names: &[impl Borrow<str>]) -> String {
    blake3::hash(names.join("\0").as_bytes()).to_hex().to_string()
}

/// The hash that an approval would have for `reference` if its file had these bytes; `None` if it would have none.
pub fn reference_digest(reference: &ReferencedContent, bytes: &[u8]) -> Option<String> {
    match reference_source(&reference.name) {
        ReferenceSource::File(path) | ReferenceSource::Pattern(path) => {
            let name = path.rsplit('/').next().unwrap_or(path);
            content_hash::hash_deciding_bytes(name, bytes)
        }
        ReferenceSource::Script { script, .. } => match parse_package(bytes) {
            PackageScripts::Scripts(scripts) => {
                scripts.get(script).map(|line| blake3::hash(line.as_bytes()).to_hex().to_string())
            }
            PackageScripts::Invalid => None,
        },
        ReferenceSource::Outside => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(name: &str) -> ReferencedContent {
        ReferencedContent { name: name.to_string(), hash: String::new() }
    }

    /// The same digests as of files on disk, by kind of reference.
    #[test]
    fn digests_of_bytes_are_those_of_an_approval() {
        let of_text = |text: &str| Some(blake3::hash(text.as_bytes()).to_hex().to_string());
        let package = br#"{"scripts": {"test": "node check.js"}}"#;
        let cases: [(&str, &[u8], Option<String>); 6] = [
            ("ralph.toml", b"[[gate]]\n", of_text("[[gate]]\n")),
            ("scripts/check.sh", b"true\n", of_text("true\n")),
            ("package.json: scripts.test", package, of_text("node check.js")),
            ("package.json: scripts.lint", package, None),
            ("package.json: scripts.test", b"{", None),
            ("tool -> /usr/bin/tool", b"", None),
        ];
        for (name, bytes, digest) in cases {
            assert_eq!(reference_digest(&reference(name), bytes), digest, "{name}");
        }
        assert_eq!(reference_source("bin/ on PATH"), ReferenceSource::Outside);
        assert_eq!(reference_source("tests/*.sh"), ReferenceSource::Pattern("tests/*.sh"));
    }
}
