//! Numbers as a person writes them in `ralph.toml`.

/// Formats `number * 10^-places` with at least one digit after the point.
pub(super) fn format_decimal(number: u64, places: usize) -> String {
    let digits = format!("{number:0width$}", width = places + 1);
    let (whole, part) = digits.split_at(digits.len() - places);
    let part = part.trim_end_matches('0');
    format!("{whole}.{}", if part.is_empty() { "0" } else { part })
}

/// Formats a duration as people write it: `1h30m`.
pub(super) fn format_duration(ms: u64) -> String {
    let mut rest = ms;
    let mut out = String::new();
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)]
    {
        // `24h` reads better than `1d`.
        if rest >= size && (unit != "d" || rest >= 2 * size) {
            out.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    if out.is_empty() { "0s".to_string() } else { out }
}
