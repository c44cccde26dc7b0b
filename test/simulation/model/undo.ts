// Undo log of a model that tries possibilities.

/** Returns a function that restores the fields of these objects; later fields stay. */
export function fieldsOf(objects: Iterable<object>): () => void {
  const before = [...objects].map((each) => [each, { ...each }] as const);
  return () => {
    for (const [each, fields] of before) Object.assign(each, fields);
  };
}

/** The same for the entries of a map; what they name is left alone. */
export function entriesOf<Key, Value>(map: Map<Key, Value>): () => void {
  const before = [...map];
  return () => {
    map.clear();
    for (const [key, value] of before) map.set(key, value);
  };
}
