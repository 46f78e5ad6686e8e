//! The names under which the server may be addressed. A page of another name that resolves to this machine (DNS rebinding)
//! sends its own name in `Host`, and is refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

#[derive(Clone, Debug)]
pub(crate) struct AllowedHosts {
    /// `host:port` in lower case.
    names: Vec<String>,
}

impl AllowedHosts {
    pub(crate) fn of(address: SocketAddr) -> Self {
        let port = address.port();
        let mut names: Vec<String> = Vec::new();
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        names.extend(loopback.map(|ip| SocketAddr::new(ip, port).to_string()));
        names.push(format!("localhost:{port}"));
        if !address.ip().is_unspecified() && !loopback.contains(&address.ip()) {
            names.push(address.to_string());
        }
        Self { names }
    }

    /// Also allows the addresses of the machine, for a server that listens on all of them.
    pub(crate) fn with_local_address(mut self, address: SocketAddr) -> Self {
        self.names.push(address.to_string());
        self
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
