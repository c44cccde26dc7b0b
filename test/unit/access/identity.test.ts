// Tests of permissions and roles.

import assert from "node:assert/strict";
import { it } from "node:test";
import { ALL_PERMISSIONS, Permission, permissionNames, ROLES } from "../../../src/access/identity.ts";

it("permissions have names, in the order of their bits in the list", () => {
  assert.deepEqual(permissionNames(0), []);
  assert.deepEqual(permissionNames(Permission.Put | Permission.Work).sort(), ["put", "work"]);
  assert.deepEqual(permissionNames(Permission.Admin), ["admin"]);
  assert.equal(permissionNames(ALL_PERMISSIONS).length, 7);
  assert.deepEqual(permissionNames(128), [], "a bit that no permission has");
});

it("each role has what its name says, and admin has all", () => {
  const namesOf = (role: string): string => permissionNames(ROLES[role]!).sort().join(" ");
  assert.equal(namesOf("monitor"), "metrics view");
  assert.equal(namesOf("viewer"), "bodies metrics view");
  assert.equal(namesOf("producer"), "put");
  assert.equal(namesOf("worker"), "put work");
  assert.equal(namesOf("operator"), "bodies manage metrics put view work");
  assert.equal(namesOf("admin"), "admin bodies manage metrics put view work");
});
