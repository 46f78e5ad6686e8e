//! The names under which the server may be addressed. A page of another name that resolves to this machine (DNS rebinding)
//! sends its own name in `Host`, and is refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The port of `http` addresses without one.
const DEFAULT_PORT: &str = ":80";

#[derive(Clone, Debug)]
pub(crate) struct AllowedHosts {
    /// `host:port` in lower case.
    names: Vec<String>,
}

impl AllowedHosts {
    pub(crate) fn of(address: SocketAddr) -> Self {
        let port = address.port();
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let mut hosts = Self { names: Vec::new() };
        for ip in loopback {
            hosts.allow(SocketAddr::new(ip, port).to_string());
        }
        hosts.allow(format!("localhost:{port}"));
        if !address.ip().is_unspecified() && !loopback.contains(&address.ip()) {
            hosts.allow(address.to_string());
        }
        hosts
    }

    /// Also allows the addresses of the machine, for a server that listens on all of them.
    pub(crate) fn with_local_address(mut self, address: SocketAddr) -> Self {
        self.allow(address.to_string());
        self
    }

    fn allow(&mut self, name: String) {
        // Browsers leave the default port out.
        self.names.extend(name.strip_suffix(DEFAULT_PORT).map(str::to_string));
        self.names.push(name);
    }

    pub(crate) fn contains(&self, host: &str) -> bool {
        self.names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }

    /// Whether `origin` is the origin of pages that this server serves under `host`.
    pub(crate) fn is_own_origin(&self, host: &str, origin: &str) -> bool {
        let name = origin.strip_prefix("http://");
        self.contains(host) && name.is_some_and(|name| name.eq_ignore_ascii_case(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_port_may_be_left_out() {
        let hosts = |address: &str| AllowedHosts::of(address.parse().unwrap());
        for (address, host, expected) in [
            ("127.0.0.1:80", "localhost", true),
            ("127.0.0.1:80", "LOCALHOST:80", true),
            ("127.0.0.1:80", "[::1]", true),
            ("10.0.0.2:80", "10.0.0.2", true),
            ("127.0.0.1:80", "localhost:8080", false),
            ("127.0.0.1:80", "evil.example", false),
            ("127.0.0.1:8080", "localhost", false),
        ] {
            assert_eq!(hosts(address).contains(host), expected, "{address} {host}");
        }
        assert!(hosts("127.0.0.1:80").is_own_origin("localhost", "http://localhost"));
    }
}
