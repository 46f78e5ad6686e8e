//! What `ralph --version` prints besides the version: the commit and the target of the build, and the formats on disk
//! that it writes. Two programs that share a home need the same formats.

use ralph_core::record::FORMAT_VERSION;
use ralph_home::ledger::LEDGER_VERSION;
use ralph_home::session_pointer::POINTER_VERSION;
use ralph_policy::trust::APPROVAL_VERSION;
use std::sync::LazyLock;

/// The answer to `ralph --version`. `ralph -V` prints its first line only.
pub(crate) static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let formats = [
        ("run", FORMAT_VERSION),
        ("session", POINTER_VERSION),
        ("approval", APPROVAL_VERSION),
        ("spending", LEDGER_VERSION),
    ];
    let formats = formats.map(|(name, version)| format!("{name} {version}")).join(", ");
    // The build script sets both variables.
    format!(
        "{}\ncommit   {}\ntarget   {}\nformats  {formats}",
        env!("CARGO_PKG_VERSION"),
        env!("RALPH_COMMIT"),
        env!("RALPH_TARGET"),
    )
});
