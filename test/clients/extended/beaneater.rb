# runnerbean's commands with beaneater. Usage: ruby beaneater.rb PORT. Prints "ok" at the end.

require 'beaneater'

# page: begin
# Beaneater raises an error for the error words of beanstalkd. Others are a plain status:
# UNKNOWN_OPTION, TUBE_FULL, BATCH_COMMITTED. This check raises for them, too.
class Runnerbean < Beaneater
  def ask(line, *usual)
    reply = connection.transmit(line)
    raise "#{reply[:status]} #{reply[:id]} in reply to: #{line.lines.first}" unless usual.include?(reply[:status])

    reply
  end

  def put_in(tube, body, options, *usual)
    usual = %w[INSERTED DUPLICATE] if usual.empty?
    ask("put-in-tube #{tube} 0 0 60 #{body.bytesize} #{options}\r\n#{body}", *usual)
  end
end

queue = Runnerbean.new("127.0.0.1:#{ARGV[0]}")
# page: end
queue.ask('set-tube mails max-attempts=5 backoff=10 dead-letter=mails-dead', 'SET')
# page: begin
first = queue.put_in('mails', 'hello', 'unique=welcome:42 meta=tenant:acme')
# page: end
again = queue.put_in('mails', 'again', 'unique=welcome:42')
abort "#{again}" unless again == { status: 'DUPLICATE', id: first[:id] }
# page: begin
queue.tubes.watch!('mails')
job = queue.tubes.reserve(5)
facts = queue.ask("inspect-job #{job.id}", 'OK')[:body]
abort "#{facts}" unless facts['attempts'] == 1 && facts['meta'] == ['tenant:acme']
queue.ask("release #{job.id} 0 0 reason=SMTP%20550:%20no%20such%20user", 'RELEASED')
# page: end

# A batch: the callback is ready when all members are deleted.
queue.ask('open-batch import-7', 'OPENED')
%w[1 2].each { |row| queue.put_in('rows', row, 'batch=import-7') }
queue.put_in('done', 'import 7 is done', 'after=import-7')
queue.ask('commit-batch import-7', 'COMMITTED')

# A schedule.
queue.ask("set-schedule nightly reports 0 0 600 2 cron=30_2_*_*_* tz=Europe/Berlin\r\n{}", 'SET')

# page: begin
# Without the check, these would pass in silence.
['uniqe=x', 'batch=import-7'].zip(['UNKNOWN_OPTION uniqe', 'BATCH_COMMITTED']) do |options, words|
  queue.put_in('mails', 'hello', options)
  abort 'no error'
rescue RuntimeError => e
  abort e.message unless e.message.start_with?(words)
end
# page: end

puts 'ok'
