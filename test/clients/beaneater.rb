# A realistic cycle with Debian's ruby-beaneater. Usage: ruby beaneater.rb PORT. Prints "ok" at the end.

require 'beaneater'

def same(expected, got, what)
  return if expected == got

  warn "#{what}: expected #{expected.inspect}, got #{got.inspect}"
  exit 1
end

def raises(error, what)
  yield
  warn "#{what}: expected #{error}"
  exit 1
rescue error
  nil
end

address = "127.0.0.1:#{ARGV[0]}"
producer = Beaneater.new(address)
worker = Beaneater.new(address)
mails = producer.tubes['mails']

same 1, mails.put('hello', pri: 10, ttr: 60)[:id].to_i, 'first id'
same 2, mails.put('urgent', pri: 1, ttr: 60)[:id].to_i, 'second id'
same 3, mails.put('later', pri: 1, ttr: 60, delay: 100)[:id].to_i, 'third id'
same 'mails', producer.tubes.used.name, 'tube used'

worker.tubes.watch!('mails')
same ['mails'], worker.tubes.watched.map(&:name), 'tubes watched'
job = worker.tubes.reserve
same ['2', 'urgent'], [job.id, job.body], 'most urgent job'
job.touch
same 'reserved', job.stats.state, 'state'
same 'mails', job.stats.tube, 'tube of the job'
job.release(pri: 20, delay: 100)
same 'delayed', producer.jobs.find(2).stats.state, 'state after a delayed release'
producer.jobs.find(2).kick

job = worker.tubes.reserve(1)
same '1', job.id, 'next job'
job.bury(pri: 5)
same '1', mails.peek(:buried).id, 'buried'
same '3', mails.peek(:delayed).id, 'delayed'
same '2', mails.peek(:ready).id, 'ready'
same 'later', producer.jobs.find(3).body, 'peek'
same '1', mails.kick(10)[:id], 'kicked'

mails.pause(100)
raises(Beaneater::TimedOutError, 'a paused tube') { worker.tubes.reserve(0) }
mails.pause(0)
same 'mails', mails.stats.name, 'name of the tube'
same 2, mails.stats.current_jobs_ready, 'ready jobs of the tube'
same 2, producer.stats.current_connections, 'connections'
same 51, producer.stats.keys.length, 'keys of stats'
same %w[default mails], producer.tubes.all.map(&:name), 'tubes'

2.times { worker.tubes.reserve(0).delete }
producer.jobs.find(3).delete
same nil, producer.jobs.find(3), 'a deleted job'
mails.put('x' * 65_535)
same 65_535, worker.tubes.reserve.body.length, 'the largest body'
mails.clear

# Commands that it does not know, where there are some: as docs/commands.md says.
def extensions?(connection)
  connection.transmit('extensions')
rescue Beaneater::UnknownCommandError
  false
end

queue = producer.connection
if extensions?(queue)
  put = ->(body) { queue.transmit("put-in-tube letters 0 0.25 60 #{body.bytesize} unique=k\r\n#{body}") }
  first = put.call('hello')
  same 'INSERTED', first[:status], 'a unique put'
  same({ status: 'DUPLICATE', id: first[:id] }, put.call('again').slice(:status, :id), 'put again')
  same 'SET', queue.transmit('set-tube letters max-attempts=2 dead-letter=lost')[:status], 'a tube is set'
  same 'UPDATED', queue.transmit("update-job #{first[:id]} delay=0")[:status], 'a job is changed'
  same 'k', queue.transmit("inspect-job #{first[:id]}")[:body]['unique'], 'a key is shown'
  same ['hello'], queue.transmit('list-jobs letters show=10')[:body]['jobs'].map { |row| row['body'] }, 'a list'
  same '1', queue.transmit('clear-tube letters')[:id], 'cleared'
end
puts 'ok'
