//! Has the linker put side by side what an idle stop runs.
#![expect(clippy::disallowed_methods, reason = "cargo tells a build script all by the environment")]

use std::env::var;

const ORDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/hook.ld");

fn main() {
    println!("cargo::rerun-if-changed={ORDER}");
    let holds = |name: &str, part: &str| var(name).is_ok_and(|value| value.contains(part));
    // Where the flags of this repository are in force. `mold` reads no linker scripts.
    if holds("PROFILE", "release")
        && holds("CARGO_CFG_TARGET_FEATURE", "crt-static")
        && holds("CARGO_CFG_TARGET_OS", "linux")
        && !holds("CARGO_ENCODED_RUSTFLAGS", "mold")
    {
        println!("cargo::rustc-link-arg-bins=-Xlinker");
        println!("cargo::rustc-link-arg-bins=--script={ORDER}");
    }
}
