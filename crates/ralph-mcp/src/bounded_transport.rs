//! A transport that reads no further while a client leaves answers unread.
//!
//! The SDK reads requests as fast as they come and starts a task for each answer, however many wait to be written. A
//! client that sends without reading would make the process grow without limit.

use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::sync::Arc;
use tokio::sync::watch;

/// More messages than a client that reads its answers leaves unread.
pub(crate) const MAX_UNSENT: usize = 64;

pub(crate) struct BoundedTransport<Inner> {
    inner: Inner,
    unsent: Arc<watch::Sender<usize>>,
    changes: watch::Receiver<usize>,
}

impl<Inner> BoundedTransport<Inner> {
    pub(crate) fn new(inner: Inner) -> Self {
        let (unsent, changes) = watch::channel(0);
        Self { inner, unsent: Arc::new(unsent), changes }
    }
}

impl<Inner: Transport<RoleServer>> Transport<RoleServer> for BoundedTransport<Inner> {
    type Error = Inner::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let unsent = UnsentMessage::new(&self.unsent);
        let sending = self.inner.send(item);
        async move {
            let sent = sending.await;
            drop(unsent);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        // Answers to earlier requests come first, so that each is counted before the next request is read.
        tokio::task::yield_now().await;
        // It fails only if the sender is gone, which `self` owns.
        drop(self.changes.wait_for(|unsent| *unsent < MAX_UNSENT).await);
        self.inner.receive().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// Counts a message until it is written, cannot be written, or is given up.
struct UnsentMessage(Arc<watch::Sender<usize>>);

impl UnsentMessage {
    fn new(unsent: &Arc<watch::Sender<usize>>) -> Self {
        unsent.send_modify(|count| *count = count.saturating_add(1));
        Self(Arc::clone(unsent))
    }
}

impl Drop for UnsentMessage {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}
