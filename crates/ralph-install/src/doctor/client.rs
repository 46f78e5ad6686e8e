//! Which client there is, and what of ralph it can do.

use std::ffi::OsStr;

use super::{Check, Scene, fire};
use ralph_gates::gates::tools;

const NAME: &str = "client";
/// The version that ralph was tried with.
const TRIED: [u32; 3] = [2, 1, 325];
/// What came with which version.
const CAME: [([u32; 3], &str); 2] = [
    ([2, 1, 163], "`--style context` is not understood"),
    ([2, 1, 143], "blocks in a row have no cap"),
];

pub(super) fn version(scene: &Scene<'_>) -> Check {
    let path = scene.env.search_path().unwrap_or_default();
    let Some(client) = tools::find(OsStr::new("claude"), scene.scratch, &path) else {
        return Check::note(NAME, "`claude` is not on the path");
    };
    let shown = client.display();
    match fire::version(scene, &client) {
        Some(said) => judged(&said),
        None => Check::unclear(NAME, format!("`{shown}` does not say its version")),
    }
}

fn judged(said: &str) -> Check {
    let Some(version) = parse(said) else {
        return Check::unclear(NAME, format!("`claude` says its version is `{said}`"));
    };
    if version >= TRIED {
        return Check::good(NAME, format!("claude {said}"));
    }
    let lacks = CAME.iter().filter(|(since, _)| version < *since).map(|(_, lack)| *lack);
    let lacks: Vec<_> =
        std::iter::once("older than 2.1.325, which ralph was tried with").chain(lacks).collect();
    Check::note(NAME, format!("claude {said}: {}", lacks.join("; "))).fix("`claude update`")
}

fn parse(said: &str) -> Option<[u32; 3]> {
    let mut parts = said.split_whitespace().next()?.split('.').map(str::parse);
    let version = [parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?];
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_client_is_told_of() {
        let shown = [
            "2.1.325 (Claude Code)",
            "2.2.0",
            "2.1.200 (Claude Code)",
            "2.1.9",
            "",
            "1.x.2",
            "1.2.3.4",
        ]
        .map(|said| {
            let check = judged(said);
            format!("{:?} {}\n", check.standing, check.what)
        })
        .concat();
        insta::assert_snapshot!(shown, @"
        Good claude 2.1.325 (Claude Code)
        Good claude 2.2.0
        Note claude 2.1.200 (Claude Code): older than 2.1.325, which ralph was tried with
        Note claude 2.1.9: older than 2.1.325, which ralph was tried with; `--style context` is not understood; blocks in a row have no cap
        Unclear `claude` says its version is ``
        Unclear `claude` says its version is `1.x.2`
        Unclear `claude` says its version is `1.2.3.4`
        ");
    }
}
