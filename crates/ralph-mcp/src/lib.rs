//! `ralph mcp`: an agent asks over the Model Context Protocol what its run is still missing, and declares what only it knows.
//!
//! Every tool either reads, or records a statement of the agent (`ask`, `dispute`). Nothing here loosens a run: no waiver, no
//! limit, no pause, no approval. The answers come from [`RunTools`], so that they are the same texts as those of the
//! commands; this crate has the protocol, the schemas and the bounds.

mod bounded_transport;
mod server;
mod tool_list;
mod tool_request;

pub use server::{McpServer, ServeError, serve_stdio};
pub use tool_list::McpTool;
pub use tool_request::ToolRequest;

/// Answers the calls of one agent.
pub trait RunTools: Send + Sync + 'static {
    /// The text for the agent. The error says what is wrong and what to do next. Both are clean and without secrets.
    fn answer(&self, request: &ToolRequest) -> Result<String, String>;
}
