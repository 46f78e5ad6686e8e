//! Passes the linker an order that groups the functions of an idle stop.
#![expect(
    clippy::disallowed_methods,
    reason = "cargo passes its input to a build script as variables"
)]

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
