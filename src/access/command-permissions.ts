// The permissions that each command of the wire requires.

import { Op } from "../protocol/commands.ts";
import { Permission } from "./permission.ts";

const { View, Bodies, Put, Work, Manage } = Permission;

/**
 * Each value lists permission bits, any one of which is enough. 0 means every admitted client.
 * Workers may query jobs and tubes, because client libraries such as Laravel's do so for each job.
 * The type requires a row for each new command.
 */
export const COMMAND_PERMISSIONS: Readonly<Record<Exclude<Op, 0>, number>> = {
  [Op.Put]: Put,
  [Op.Peek]: Bodies,
  [Op.PeekReady]: Bodies,
  [Op.PeekDelayed]: Bodies,
  [Op.PeekBuried]: Bodies,
  [Op.Reserve]: Work,
  [Op.ReserveWithTimeout]: Work,
  [Op.Delete]: Work,
  [Op.Release]: Work,
  [Op.Use]: 0,
  [Op.Watch]: 0,
  [Op.Ignore]: 0,
  [Op.Bury]: Work,
  [Op.Kick]: Manage,
  [Op.Touch]: Work,
  [Op.Stats]: View,
  [Op.StatsJob]: View | Work,
  [Op.StatsTube]: View | Work,
  [Op.ListTubes]: View,
  [Op.ListTubeUsed]: 0,
  [Op.ListTubesWatched]: 0,
  [Op.PauseTube]: Manage,
  [Op.ReserveJob]: Work,
  [Op.KickJob]: Manage,
  [Op.Quit]: 0,
  [Op.Extensions]: 0,
  [Op.PutInTube]: Put,
  [Op.InspectJob]: View | Work,
  [Op.InspectTube]: View | Work,
  [Op.UpdateJob]: Work | Manage,
  // Searching bodies reveals what they contain.
  [Op.ListJobs]: Bodies,
  [Op.ClearTube]: Manage,
  [Op.Auth]: 0,
  [Op.SetTube]: Manage,
  [Op.MoveJobs]: Manage,
  [Op.ReserveBatch]: Work,
  [Op.DeleteBatch]: Work,
  [Op.TouchAll]: Work,
};
