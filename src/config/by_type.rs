//! Values that are made once for each type.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::Arc,
};

use crate::mutex::Mutex;

/// One value for each type that was asked for.
#[derive(Debug, Default)]
pub struct ByType(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl ByType {
    /// Returns the value of `T`, which `make` makes when it is asked for the first time.
    pub fn get_or_make<T: 'static, V: Any + Send + Sync>(
        &self,
        make: impl FnOnce() -> V,
    ) -> Arc<V> {
        let mut values = self.0.lock();
        let known = values.get(&TypeId::of::<T>()).cloned();
        if let Some(Ok(value)) = known.map(Arc::downcast) {
            return value;
        }
        let value = Arc::new(make());
        values.insert(TypeId::of::<T>(), value.clone());
        value
    }
}
