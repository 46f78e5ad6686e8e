//! Ends the build on an unsupported system with one sentence instead of compile errors.
#![expect(clippy::disallowed_methods, reason = "cargo passes the target in the environment")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_CFG_TARGET_OS").is_none_or(|system| system != "linux") {
        println!(
            "cargo::error=ralph runs on Linux, and on Windows in WSL; it does not support this system yet"
        );
    }
}
