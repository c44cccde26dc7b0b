// What one has to be allowed for each command of the wire.

import { Op } from "../protocol/commands.ts";
import { Permission } from "./permission.ts";

const { View, Bodies, Put, Work, Manage } = Permission;

/**
 * Any of these bits is enough; 0 is for what everybody may who is let in. Workers may ask for the state of jobs and
 * tubes, because client libraries do so for each job, as Laravel's. A new command has to have its row: it does not compile without.
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
  // Whoever may search bodies may find out what is in them.
  [Op.ListJobs]: Bodies,
  [Op.ClearTube]: Manage,
  [Op.Auth]: 0,
  [Op.SetTube]: Manage,
  [Op.MoveJobs]: Manage,
  [Op.ReserveBatch]: Work,
  [Op.DeleteBatch]: Work,
  [Op.TouchAll]: Work,
};
