//! Checks the version of the client and the features it lacks.

use std::ffi::OsStr;

use super::{DoctorCheck, DoctorContext, hook_trial};
use ralph_host::HostProfile;
use ralph_sys::proc::program_search;

const NAME: &str = "client";

pub(super) fn check_client_version(context: &DoctorContext<'_>) -> DoctorCheck {
    let path = context.env.search_path().unwrap_or_default();
    let program = context.host.program;
    let Some(client) = program_search::find_program(OsStr::new(program), context.scratch, &path)
    else {
        return DoctorCheck::note(NAME, format!("`{program}` is not on the `PATH`"));
    };
    let shown = client.display();
    match hook_trial::program_version(context, &client) {
        Some(reported) => judge_client_version(context.host, &reported),
        None => DoctorCheck::unclear(NAME, format!("`{shown}` did not report a version")),
    }
}

fn judge_client_version(host: &HostProfile, reported: &str) -> DoctorCheck {
    let HostProfile { program, versions, .. } = host;
    let Some(version) = parse_version(reported) else {
        return DoctorCheck::unclear(
            NAME,
            format!("`{program}` reports an unknown version: `{reported}`"),
        );
    };
    if version >= versions.tested {
        return DoctorCheck::good(NAME, format!("{program} {reported}"));
    }
    let lacks =
        versions.features.iter().filter(|(since, _)| version < *since).map(|(_, lack)| *lack);
    let tested = versions.tested.map(|part| part.to_string()).join(".");
    let older = format!("older than {tested}, which ralph was tested with");
    let lacks: Vec<_> = std::iter::once(older.as_str()).chain(lacks).collect();
    DoctorCheck::note(NAME, format!("{program} {reported}: {}", lacks.join("; ")))
        .fix(format!("`{}`", versions.update_command))
}

fn parse_version(reported: &str) -> Option<[u32; 3]> {
    let mut parts = reported.split_whitespace().next()?.split('.').map(str::parse);
    let version = [parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?];
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_client_is_reported() {
        let shown = [
            "2.1.325 (Claude Code)",
            "2.2.0",
            "2.1.200 (Claude Code)",
            "2.1.9",
            "",
            "1.x.2",
            "1.2.3.4",
        ]
        .map(|reported| {
            let check = judge_client_version(ralph_host::default_host(), reported);
            format!("{:?} {}\n", check.standing, check.what)
        })
        .concat();
        insta::assert_snapshot!(shown, @"
        Good claude 2.1.325 (Claude Code)
        Good claude 2.2.0
        Note claude 2.1.200 (Claude Code): older than 2.1.325, which ralph was tested with
        Note claude 2.1.9: older than 2.1.325, which ralph was tested with; `--style context` is not supported; consecutive blocks have no cap
        Unclear `claude` reports an unknown version: ``
        Unclear `claude` reports an unknown version: `1.x.2`
        Unclear `claude` reports an unknown version: `1.2.3.4`
        ");
    }
}
