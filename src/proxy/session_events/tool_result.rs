//! `AfterTool` events from the tool results of a request.

use tokio::task::coop::consume_budget;

use crate::{
    dialect::{DialectError, History, ToolResult},
    event::AfterTool,
    session::Item,
};

/// Builds the events of tool results, in order.
pub async fn events<'a>(
    history: &History,
    items: impl Iterator<Item = &'a Item>,
) -> Result<Vec<AfterTool>, DialectError> {
    let mut events = Vec::new();
    let mut results = Vec::new();
    for item in items {
        consume_budget().await;
        let position = |result: &ToolResult| (result.content, result.part);
        let wanted = (item.content, item.part);
        // The results of one content are read at once: it may hold very many.
        if results.last().is_none_or(|last| position(last) < wanted) {
            results = history.results(item.content)?;
        }
        let index = results.binary_search_by_key(&wanted, position).ok();
        let result = index.and_then(|index| results.get(index)).cloned();
        events.push(result.unwrap_or_default().into());
    }
    Ok(events)
}
