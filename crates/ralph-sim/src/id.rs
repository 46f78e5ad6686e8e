//! Names that the client makes up.

use ralph_exec::clock;

/// A random UUID, as the client names sessions and prompts.
pub fn uuid() -> String {
    let mut bytes = random();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex = hex(&bytes);
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// As the client names subagents.
pub fn agent() -> String {
    let hex = hex(&random());
    format!("a{}", hex.get(..16).unwrap_or_default())
}

/// As the client names commands in the background.
pub fn task() -> String {
    let hex = hex(&random());
    format!("b{}", hex.get(..8).unwrap_or_default())
}

/// As the client names teammates among the work in the background.
pub fn teammate() -> String {
    let hex = hex(&random());
    format!("t{}", hex.get(..8).unwrap_or_default())
}

fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    match clock::random_key() {
        Some(key) => bytes.iter_mut().zip(key).for_each(|(byte, random)| *byte = random),
        None => bytes[..8].copy_from_slice(&clock::nonce().to_be_bytes()),
    }
    bytes
}

fn hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        hex.push_str(&format!("{byte:02x}"));
    }
    hex
}
