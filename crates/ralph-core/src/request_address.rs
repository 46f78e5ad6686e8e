//! Addresses that requests may be sent to: `https`, or `http` on the loopback interface, so that no key travels in the
//! clear. Policies are checked by the same rule as the requests themselves.

use core::net::{Ipv4Addr, Ipv6Addr};

const MAX_ADDRESS_BYTES: usize = 2_000;

/// The parts of an address that may be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestAddress<'a> {
    /// `https` or `http`
    pub scheme: &'a str,
    /// The host with its port.
    pub authority: &'a str,
    /// An IPv6 address is without its brackets.
    pub host: &'a str,
    /// Everything after the first `/`, with query and fragment.
    pub path: &'a str,
    pub is_loopback: bool,
}

impl<'a> RequestAddress<'a> {
    /// The error continues a sentence: `the address …`
    pub fn parse(address: &'a str) -> Result<Self, &'static str> {
        // Quotes and backslashes would end a value in the configuration of an HTTP client.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        if address.len() > MAX_ADDRESS_BYTES || !address.bytes().all(is_plain) {
            return Err("is too long or has characters that an address cannot have");
        }
        let (scheme, rest) = address.split_once("://").ok_or("has no scheme")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, is_loopback) = parse_host(authority)?;
        match scheme {
            "https" => {}
            "http" if is_loopback => {}
            "http" => return Err("is not encrypted; use https"),
            _ => return Err("is neither https nor http"),
        }
        Ok(Self { scheme, authority, host, path, is_loopback })
    }

    /// Parses an address that is completed with a path. A user, a query or a fragment would make it another one.
    pub fn parse_base(address: &'a str) -> Result<Self, &'static str> {
        if address.contains(['@', '?', '#']) {
            return Err("must have no user, query or fragment");
        }
        Self::parse(address)
    }

    /// The host and port of an address on this machine where every process can answer that listens first: without
    /// encryption, it needs no certificate.
    pub fn loopback_authority(address: &'a str) -> Option<&'a str> {
        let parsed = Self::parse(address).ok()?;
        (parsed.is_loopback && !parsed.is_encrypted()).then_some(parsed.authority)
    }

    pub fn is_encrypted(&self) -> bool {
        self.scheme == "https"
    }
}

/// Strict, because a client that reads the authority differently would send the request to another host.
fn parse_host(authority: &str) -> Result<(&str, bool), &'static str> {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    if let Some(inner) = authority.strip_prefix('[') {
        let (host, port) = inner.split_once(']').ok_or("has no valid host")?;
        let address = host.parse::<Ipv6Addr>().map_err(|_| "has no valid host")?;
        let is_valid = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return if is_valid { Ok((host, address.is_loopback())) } else { Err("has no valid port") };
    }
    let (host, port) = authority.split_once(':').unwrap_or((authority, "0"));
    let is_host_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if host.is_empty() {
        return Err("has no host");
    }
    if !host.bytes().all(is_host_byte) {
        return Err("has no valid host");
    }
    if !is_port(port) {
        return Err("has no valid port");
    }
    let is_loopback_address =
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    Ok((host, host.eq_ignore_ascii_case("localhost") || is_loopback_address()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::{String, ToString};

    fn describe(address: &str) -> String {
        match RequestAddress::parse(address) {
            Ok(found) => {
                let place = if found.is_loopback { "here" } else { "there" };
                format!("{} {} {place} /{}", found.scheme, found.host, found.path)
            }
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn an_address_is_encrypted_or_on_this_machine() {
        for (address, expected) in [
            ("https://a.example", "https a.example there /"),
            ("https://a.example:8443/v1?x=1#y", "https a.example there /v1?x=1#y"),
            ("https://[2001:db8::1]:443/", "https 2001:db8::1 there /"),
            ("https://localhost", "https localhost here /"),
            ("http://127.0.0.1:8080/{commit}", "http 127.0.0.1 here /{commit}"),
            ("http://127.9.8.7", "http 127.9.8.7 here /"),
            ("http://LocalHost/x", "http LocalHost here /x"),
            ("http://[::1]:80/x", "http ::1 here /x"),
            ("http://a.example", "is not encrypted; use https"),
            ("http://10.0.0.1", "is not encrypted; use https"),
            ("http://0.0.0.0", "is not encrypted; use https"),
            ("http://2130706433", "is not encrypted; use https"),
            ("http://127.1", "is not encrypted; use https"),
            ("http://[::2]", "is not encrypted; use https"),
            ("http://[::ffff:127.0.0.1]", "is not encrypted; use https"),
            ("http://127.0.0.1.a.example", "is not encrypted; use https"),
            ("http://localhost.a.example", "is not encrypted; use https"),
            ("http://127.0.0.1@a.example", "has no valid host"),
            ("http://127.0.0.1:80@a.example", "has no valid port"),
            ("http://127.0.0.1#@a.example/x", "has no valid host"),
            ("http://localhost?/x", "has no valid host"),
            ("http://[::1]a.example", "has no valid port"),
            ("http://[::1", "has no valid host"),
            ("https://a.example:99999", "has no valid port"),
            ("https://a.example:", "has no valid port"),
            ("https://{commit}/", "has no valid host"),
            ("file:///etc/passwd", "has no host"),
            ("ftp://a", "is neither https nor http"),
            ("HTTPS://a", "is neither https nor http"),
            ("a.example", "has no scheme"),
            ("", "has no scheme"),
            ("https://a.example/\nx", "is too long or has characters that an address cannot have"),
            ("https://a.example/\"x", "is too long or has characters that an address cannot have"),
            (
                "http://127.0.0.1\\@a.example",
                "is too long or has characters that an address cannot have",
            ),
            ("https://ä.example", "is too long or has characters that an address cannot have"),
        ] {
            assert_eq!(describe(address), expected, "{address}");
        }
        for (address, expected) in [
            ("http://localhost:80/{commit}", Some("localhost:80")),
            ("https://localhost:80/", None),
            ("http://a.example", None),
        ] {
            assert_eq!(RequestAddress::loopback_authority(address), expected, "{address}");
        }
        for (address, expected) in [
            ("https://a.example/v1", None),
            ("https://a.example/v1?x=1", Some("must have no user, query or fragment")),
            ("https://a.example/#x", Some("must have no user, query or fragment")),
            ("http://127.0.0.1@a.example", Some("must have no user, query or fragment")),
            ("http://a.example", Some("is not encrypted; use https")),
        ] {
            assert_eq!(RequestAddress::parse_base(address).err(), expected, "{address}");
        }
        let long = format!("https://a.example/{}", "x".repeat(MAX_ADDRESS_BYTES));
        assert_eq!(describe(&long), "is too long or has characters that an address cannot have");
    }
}
